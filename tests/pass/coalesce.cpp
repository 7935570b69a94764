#include "simulate.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto before = dead_code_elimination(remove_training_ops(chain_task<3>::build(entry::predict, dtype::f32)));
constexpr auto after = coalesce(before);
static_assert(calls(before, &info_of<op::copy>) == 3 && calls(after, &info_of<op::copy>) == 0);
static_assert(calls(after) == calls(before) - 3);
static_assert(verify(after).ok());
static_assert(same(coalesce(after), after));

// A value that is read after the repeat, which carries its copy on, keeps a place of its own.
struct read_again {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const y = repeat("block", 3, x, [](value x) { return silu(linear("up", x, 4)); });
    return linear("head", x + y, 5);
  }
};
using again_task = task<read_again{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr auto kept = coalesce(dead_code_elimination(again_task::build(entry::predict, dtype::f32)));
static_assert(calls(kept, &info_of<op::copy>) == 1);

// The loss adds up over micro-batches: its copy is the sum and stays.
static_assert(calls(coalesce(built<tied_task>()), &info_of<op::copy>) == 1);

} // namespace

TEST_CASE("coalesce, in full") {
  CHECK(print(before) == "%2 f32 [2, 3, 4] = embedding(token.weight, %0)\n"
                         "%3@initial f32 [2, 3, 4] = copy(%2)\n"
                         "loop block 3\n"
                         "  %5 f32 [2, 3, 4] = linear(%3@current, block.up.weight)\n"
                         "  %6 f32 [2, 3, 4] = elementwise(%5)\n"
                         "  %7 f32 [2, 3, 4] = add(%3@current, %6)\n"
                         "  %3@next f32 [2, 3, 4] = copy(%7)\n"
                         "%9 f32 [2, 3, 5] = linear(%3@final, head.weight)\n"
                         "%10 f32 [2, 3, 5] = copy(%9)\n");
  CHECK(print(after) == "%3@initial f32 [2, 3, 4] = embedding(token.weight, %0)\n"
                        "loop block 3\n"
                        "  %5 f32 [2, 3, 4] = linear(%3@current, block.up.weight)\n"
                        "  %6 f32 [2, 3, 4] = elementwise(%5)\n"
                        "  %3@next f32 [2, 3, 4] = add(%3@current, %6)\n"
                        "%10 f32 [2, 3, 5] = linear(%3@final, head.weight)\n");
}

TEST_CASE("coalesce changes no number and needs no more bytes") {
  for (auto const& p : {built<gpt2_task>(), built<tagger_task>(), built<again_task>()})
    for (int every : {0, 2}) {
      auto const r = recompute(updated(p, 2), every);
      auto const c = coalesce(r);
      CHECK(calls(c, &info_of<op::copy>) < calls(r, &info_of<op::copy>));
      auto const old_place = plan_memory(r), new_place = plan_memory(c);
      CHECK(new_place.end <= old_place.end);
      auto const s = simulate(c, new_place);
      CHECK(s.errors == std::vector<std::string>{});
      CHECK(s.left == simulate(r, old_place).left);
    }
}
