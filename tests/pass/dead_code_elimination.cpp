#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

/// A layer that nobody reads, a loop that nobody reads, and the model.
struct wasteful {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    silu(silu(x));
    repeat("unused", 3, x, [](value x) { return silu(x); });
    return linear("head", x, 5);
  }
};
using wasteful_task = task<wasteful{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;

constexpr auto before = built<wasteful_task>();
constexpr auto after = dead_code_elimination(before);
static_assert(calls(before, &info_of<op::elementwise<op::silu>>) == 3 && loops(before) == 1);
static_assert(calls(after, &info_of<op::elementwise<op::silu>>) == 0 && loops(after) == 0);
static_assert(calls(after) == 4); // embedding, linear, cross_entropy, copy of the loss
static_assert(verify(after).ok());

// Nothing is dead: nothing changes.
static_assert(same(dead_code_elimination(after), after));
static_assert(same(dead_code_elimination(built<gpt2_task>()), built<gpt2_task>()));

constexpr bool observed(role r) {
  value_info info;
  info.role = r;
  return is_observed(info);
}
static_assert(observed(role::result) && observed(role::weight) && observed(role::state));
static_assert(!observed(role::activation) && !observed(role::gradient) && !observed(role::input));

} // namespace

TEST_CASE("prune removes what nothing observed comes of") {
  CHECK(print(dead_code_elimination(before)) ==
        "%2 f32 [2, 3, 4] = embedding(token.weight, %0)\n"
        "%9 f32 [2, 3, 5] = linear(%2, head.weight, head.bias)\n"
        "%12 f64 [], %13 f32 [6], %14 f64 [6] = cross_entropy(%9, %10, inverse_label_count)\n"
        "%15 f64 [] = copy(%12)\n");
}

TEST_CASE("a loop-carried value that the next iteration reads keeps its loop") {
  auto const p = dead_code_elimination(built<chain_task<4>>());
  CHECK(loops(p) == 1);
  CHECK(same(p, built<chain_task<4>>()));
}
