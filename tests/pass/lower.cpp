#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto program_of_7 = recompute(updated(built<chain_task<7>>(), 2), 3);
constexpr auto where = plan_memory(program_of_7);
constexpr auto table = lower<program_of_7.nodes.count, count_operands(program_of_7)>(program_of_7, where);

constexpr int find(op_info const* op, int which = 0) {
  for (int i = 0; i < program_of_7.nodes.size(); ++i)
    if (program_of_7.nodes[i].op == op && which-- == 0) return i;
  return -1;
}
constexpr std::int64_t stride(operand const& o, int axis) {
  for (auto const& term : o.strides)
    if (term.axis == axis) return term.stride;
  return 0;
}

// Loops know their ends, ends their loops.
static_assert(table.steps[0].kind == node_kind::loop && table.steps[0].axis == program_of_7.micro_batches);
static_assert(table.steps[table.steps[0].partner].partner == 0);

// iteration = 3 segment + iteration in segment: a weight of the stack moves by as much.
constexpr int iterations = program_of_7.axes.size() - 1, segments = iterations - 1;
constexpr auto weight = table.operands[table.steps[find(&info_of<op::linear>)].first_operand + 1];
static_assert(stride(weight, iterations) == 4 * 4 * 4 && stride(weight, segments) == 3 * 4 * 4 * 4);
static_assert(weight.count == 16 && stride(weight, program_of_7.micro_batches) == 0);
static_assert(table.axes[iterations].extent == 3 && table.axes[iterations].original_extent == 7 &&
              table.axes[iterations].segments == segments);
static_assert(table.axes[segments].extent == 3 && table.axes[segments].segments == -1);

// Tokens move with the micro-batch.
constexpr auto tokens = table.operands[table.steps[find(&info_of<op::embedding>)].first_operand + 1];
static_assert(stride(tokens, program_of_7.micro_batches) == 2 * 3 * 4);
static_assert(table.nth(port_kind::input, 0).view.elements == 2 * 2 * 3 &&
              table.nth(port_kind::input, 0).view.type == dtype::i32);

// An update outside of the loops takes the whole stack at once.
constexpr auto update = table.steps[find(&info_of<op::update<optimizer::adamw>>, 1)];
static_assert(program_of_7.text(program_of_7.values[table.operands[update.first_operand + 3].value].name) ==
              "block.up.weight");
static_assert(table.operands[update.first_operand + 3].count == 7 * 16 &&
              table.operands[update.first_operand].count == 7 * 16);

// A gradient's first write of a run overwrites: in the first micro-batch, in every iteration.
constexpr auto weight_gradient = table.steps[find(&info_of<op::linear_weight_gradient>, 1)];
static_assert((weight_gradient.accumulates & 1u) != 0 && (weight_gradient.adds & 1u) == 0);
static_assert(weight_gradient.first[0].size() == 1 && weight_gradient.first[0][0] == 0);

// Randomness is numbered by the iteration of the whole axis, whichever loop does it.
static_assert(table.steps[find(&info_of<op::linear>)].iteration.size() == 2);

// A refused program has no plan.
static_assert(lower<0, 0>(program_of_7, where).steps_size == 0);

} // namespace

TEST_CASE("every address of a plan lies in the arena") {
  for (auto const& p : {built<gpt2_task>(), built<tagger_task>()})
    for (int every : {0, 2}) {
      auto const f = in_place(coalesce(recompute(updated(p, 2), every)));
      auto const at = plan_memory(f);
      detail::lowering const lowering(f, at);
      for (int i = 0; i < f.nodes.size(); ++i) {
        if (f.nodes[i].kind != node_kind::call) continue;
        auto const check = [&](ref r) {
          auto const o = lowering.address(r, i);
          auto last = o.offset + o.count * size_of(o.type);
          for (auto const& term : o.strides) {
            auto const& a = f.axes[term.axis];
            auto const most = a.original >= 0 && a.factor == 1 && f.axes[a.original].extent < a.extent
                                  ? f.axes[a.original].extent
                                  : a.extent;
            last += (most - 1) * term.stride;
          }
          if (o.position_stride != 0 && o.ring != 0) last += (o.ring - 1) * o.position_stride;
          CHECK(o.offset >= 0);
          CHECK(o.offset % 4 == 0);
          // The last segment may be shorter, so strides alone may point past the last iteration.
          if (every == 0) CHECK(last <= (is_persistent(f.values[r.value].role) ? at.persistent_end : at.end));
        };
        for (auto const& r : f.nodes[i].inputs) check(r);
        for (auto const& r : f.nodes[i].outputs) check(r);
      }
    }
}
