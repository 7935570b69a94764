// Op by op: every node of models that read parts of weights, rows and sequences runs on the device and on the CPU. The
// parts are of packs in fp32 and in bf16, or of no packs.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Reads parts of rows and of a weight that overlap, more than once. All parts are of `part` elements or rows.
template <int part> struct overlapping {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const outside = ct::linear("in", ct::embedding("token", tokens, {.vocabulary = 7, .width = part}), 2 * part);
    auto const weight = ct::parameter(tokens, "shared.weight", ct::shape(2 * part, part), ct::role::weight, {});
    auto const x = ct::repeat("block", 2, ct::slice(outside, 2, 0, part), [&](ct::value x) {
      auto const y = ct::linear(x, ct::slice(weight, 0, 0, part));
      auto const z = ct::linear(ct::silu(y), ct::slice(weight, 0, part / 2, part));
      return x + z * ct::slice(outside, 2, part / 2, part);
    });
    return ct::linear("head", x + ct::slice(outside, 2, part, part), 5);
  }
};
template <int part>
using overlapping_task = ct::task<overlapping<part>{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;

/// Reads one token of each sequence.
template <int width> struct one_token {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = width});
    return ct::linear("head", ct::select_token(ct::silu(x), 2), 5);
  }
};
template <int width>
using one_token_task = ct::task<one_token<width>{}, ct::classification, ct::micro_batch{.sequences = 3, .tokens = 4}>;

} // namespace

TEST_CASE("every node of models that read parts, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<overlapping_task<32>, ct::accumulate<2>, ct::optimizer::sgd>(seen);
  check_nodes<overlapping_task<32>, ct::precision::bf16, ct::optimizer::sgd>(seen);
  check_nodes<overlapping_task<6>, ct::optimizer::sgd>(seen);
  check_nodes<one_token_task<24>, ct::optimizer::sgd>(seen);
  check_nodes<one_token_task<7>, ct::optimizer::sgd>(seen);
  for (auto const* name : {"slice", "pad", "select_token", "select_token_gradient"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}
