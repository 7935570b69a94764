#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto before = built<chain_task<3>>();
constexpr auto once = accumulate_over(before, 1);
constexpr auto four = accumulate_over(before, 4);

// One micro-batch is the program as it was.
static_assert(same(once, before) && once.micro_batches == -1 && once.axes.size() == before.axes.size());

static_assert(!same(four, before));
static_assert(four.nodes.size() == before.nodes.size() + 2);
static_assert(four.nodes[0].kind == node_kind::loop && four.nodes[0].axis == four.micro_batches);
static_assert(four.axes[four.micro_batches].extent == 4);
static_assert(four.values[four.nth(port_kind::input, 0).where.value].axes[0] ==
              four.micro_batches);                                   // every micro-batch its tokens
static_assert(four.values[four.result("loss").value].axes.empty());  // one loss, which adds up
static_assert(four.values[named(four, "head.weight")].axes.empty()); // one weight for all of them
static_assert(four.values[named(four, "block.up.weight")].axes.size() == 1);
static_assert(verify(four).ok());

// The number of labels is stored before all other values that do not persist, and nothing overwrites it.
constexpr bool is_apart = [] {
  for (int micro_batches : {1, 4}) {
    auto const p = updated(before, micro_batches);
    auto const where = plan_memory(p);
    for (int v = 0; v < p.values.size(); ++v) {
      if (where.buffers[v].offset < where.persistent_end) continue;
      if ((where.buffers[v].offset == where.persistent_end) != p.values[v].per_run) return false;
    }
  }
  return true;
}();
static_assert(is_apart);

// Gradients have the parameter's axes: the loop over micro-batches adds into them.
constexpr auto step = updated(before, 4);
static_assert(step.values[gradient_of(step, "head.weight")].axes.empty());
static_assert(plan_memory(step).buffers[gradient_of(step, "head.weight")].size == 5 * 4 * 4);

// The loop over micro-batches is one of the nested loops that a program can have.
template <int depth> constexpr auto nested_program = built<nested_task<depth>>();
static_assert(axis_list::capacity == 6 && nested_program<6>.failure.ok());
static_assert(nested_program<7>.failure.reason == why::program_too_large && nested_program<7>.failure.expected == 6);
static_assert(accumulate_over(nested_program<5>, 4).failure.ok() && accumulate_over(nested_program<6>, 1).failure.ok());
constexpr auto too_deep = accumulate_over(nested_program<6>, 4).failure;
static_assert(too_deep.reason == why::program_too_large && too_deep.line > 0 && too_deep.expected == 6);
// So it is if the innermost loop only copies its loop-carried value, which has no instance per iteration.
constexpr auto idle = built<task<nested_model<6, true>{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>();
static_assert(idle.failure.ok() && accumulate_over(idle, 4).failure.reason == why::program_too_large);

} // namespace

TEST_CASE("accumulate_over") {
  for (int n = 1; n <= 64; n *= 2) {
    auto const p = accumulate_over(before, n);
    CHECK(verify(p).ok());
    CHECK(loops(p) == loops(before) + (n > 1 ? 1 : 0));
    // Micro-batches take no activations of their own, only inputs. Two inputs are aligned to 64 bytes: tokens and
    // labels.
    auto const one = plan_memory(updated(before, 1)), many = plan_memory(updated(before, n));
    CHECK(many.end - one.end <= 2 * 64 + 2 * n * 2 * 3 * 4);
  }
  program failed = before;
  failed.fail({why::extent_below_one, 3, 0, 1, 2});
  CHECK(accumulate_over(failed, 4).failure == failed.failure);
  CHECK(print(four).substr(0, 19) == "loop micro_batch 4\n");
}
