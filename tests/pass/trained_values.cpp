#include "programs.hpp"

#include <constrain/pass/trained_values.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

/// An embedding that is not trained, a layer that is, and a repeat that reads the layer's result from outside.
struct partly_frozen {
  constexpr value operator()(value tokens) const {
    auto const x = embedding(parameter(tokens, "table", shape(5, 4), role::frozen), tokens);
    auto const y = silu(x);
    auto const z = linear("layer", y, 4);
    return linear("head", repeat("block", 2, y, [&](value h) { return h + z; }), 5);
  }
};
using partly_frozen_task = task<partly_frozen{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr program p = built<partly_frozen_task>();
constexpr trained_values trained(p);

/// Whether output 0 of the first call to an op is among `trained`.
constexpr bool is_trained(op_info const& op) {
  for (auto const& n : p.nodes)
    if (calls(n, op)) return trained.contains[n.outputs[0].value];
  return false;
}
static_assert(!is_trained(info_of<op::embedding>) && !is_trained(info_of<op::elementwise<op::silu>>));
static_assert(is_trained(info_of<op::linear>) && is_trained(info_of<op::add>) &&
              is_trained(info_of<op::cross_entropy>));
// The loop-carried value has no trained first value, but a trained result.
static_assert([] {
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].is_loop_carried()) return trained.contains[v];
  return false;
}());

} // namespace

TEST_CASE("trained values are the trained parameters and what depends on them") {
  for (int v = 0; v < p.values.size(); ++v) {
    CAPTURE(v);
    if (is_parameter(p.values[v].role)) CHECK(trained.contains[v] == (p.values[v].role != role::frozen));
    if (p.values[v].role == role::input) CHECK(!trained.contains[v]);
  }
}
