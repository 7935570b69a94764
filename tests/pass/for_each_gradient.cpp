#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

struct touch {
  static constexpr char const* name = "touch";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

constexpr auto before = differentiated(built<tagger_task>());
constexpr auto touched = [] {
  builder out;
  out.program = before;
  for_each_gradient(out, [&](value gradient) { out.call<touch>({gradient.where()}, {gradient.where()}); });
  return out.program;
}();
static_assert(verify(touched).ok());

/// Whether the calls to `touch` work on the gradients in order, each in loops over the axes of its gradient.
constexpr bool in_own_loops(program const& p) {
  nest const where(p);
  int gradient = -1;
  for (int i = 0; i < p.nodes.size(); ++i) {
    if (!constrain::calls(p.nodes[i], info_of<touch>)) continue;
    do ++gradient;
    while (p.values[gradient].role != role::gradient);
    auto const& axes = p.values[gradient].axes;
    int loop = where.parent[i];
    for (int k = axes.size() - 1; k >= 0; --k, loop = where.parent[loop])
      if (loop == nest::root || p.nodes[loop].axis != axes[k] || p.nodes[loop].reversed) return false;
    if (loop != nest::root || p.nodes[i].inputs[0].value != gradient) return false;
  }
  return gradient >= 0;
}
static_assert(in_own_loops(touched));

} // namespace

TEST_CASE("a pass on gradients adds one call per gradient, behind all other nodes") {
  int gradients = 0;
  for (auto const& info : before.values) gradients += info.role == role::gradient ? 1 : 0;
  CHECK(calls(touched, &info_of<touch>) == gradients);
  for (int i = 0; i < before.nodes.size(); ++i) CHECK(before.nodes[i].op == touched.nodes[i].op);
}
