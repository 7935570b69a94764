#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto good = built<chain_task<3>>();
static_assert(verify(good).ok());

constexpr program without_node(program const& p, int i) {
  program out = p;
  out.nodes.count = 0;
  for (int j = 0; j < p.nodes.size(); ++j)
    if (j != i) out.add_node(p.nodes[j]);
  return out;
}
constexpr int first_loop(program const& p) {
  int i = 0;
  while (p.nodes[i].kind != node_kind::loop) ++i;
  return i;
}

static_assert(verify(without_node(good, 0)).reason == why::read_before_written);
static_assert(verify(without_node(good, first_loop(good))).reason == why::loops_do_not_nest);
static_assert(verify(without_node(good, good.end_of(first_loop(good)))).reason == why::loops_do_not_nest);

constexpr program with_shape(int value, shape s) {
  program out = good;
  out.values[value].shape = s;
  return out;
}
// The line is the line of the call whose output has the wrong shape.
constexpr auto wrong = verify(with_shape(good.nodes[0].outputs[0].value, shape(2, 3, 9)));
static_assert(wrong.reason == why::shape_differs_from_rule && wrong.line == good.nodes[0].line && wrong.line > 0);
// A rule that refuses is repeated with its own reason and numbers.
constexpr auto refused = verify(with_shape(named(good, "head.weight"), shape(5, 3)));
static_assert(refused.refusal == refusal_with<op::widths_differ>() && refused.expected == 3 && refused.got == 4);
// A failure of before is kept.
constexpr auto kept = [] {
  auto p = good;
  p.fail({why::too_many_operands, 7, 8, 9, 10});
  p.fail({why::extent_below_one, 1, 2, 3, 4});
  return verify(p);
}();
static_assert(kept == diagnosis{why::too_many_operands, 7, 8, 9, 10});

// A call on all instances of a value that a loop computes one by one would read the gaps between these.
struct sum {
  static constexpr char const* name = "sum";
  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f64, {}); }
};
constexpr diagnosis diagnose_stack(bool in_a_loop, bool of_the_weight) {
  builder out;
  out.program = good;
  int const read = of_the_weight ? named(good, "block.up.weight") : good.nodes[first_loop(good) + 1].outputs[0].value;
  int const opened = in_a_loop ? out.open_all(good.values[read].axes) : 0;
  out.call<sum>({{read, at::current}});
  out.close(opened);
  return verify(out.program);
}
static_assert(diagnose_stack(true, false).ok() && diagnose_stack(true, true).ok() && diagnose_stack(false, true).ok());
static_assert(diagnose_stack(false, false).reason == why::stack_has_gaps && diagnose_stack(false, false).got == 3);
// In a loop over the inner axis alone, a call would read tensors that do not lie next to each other.
constexpr diagnosis diagnose_nested(bool opens_outer, bool opens_inner) {
  builder out;
  out.program = good;
  value_info info;
  info.type = dtype::f32, info.shape = shape(4), info.role = role::weight;
  int const outer = out.program.add_axis({.name = {}, .extent = 2}),
            inner = out.program.add_axis({.name = {}, .extent = 3});
  info.axes.push_back(outer), info.axes.push_back(inner);
  int const weight = out.program.add_value(info);
  if (opens_outer) out.open(outer, false);
  if (opens_inner) out.open(inner, false);
  out.call<sum>({{weight, at::current}});
  out.close(opens_outer + opens_inner);
  return verify(out.program);
}
static_assert(diagnose_nested(true, true).ok() && diagnose_nested(true, false).ok());
static_assert(diagnose_nested(false, false).ok() && diagnose_nested(false, true).reason == why::stack_has_gaps);

} // namespace

TEST_CASE("verify finds each call that is missing") {
  for (auto const& p : {updated(built<gpt2_task>()), updated(built<tagger_task>(), 2)}) {
    REQUIRE(verify(p).ok());
    int found = 0, calls_read = 0;
    for (int i = 0; i < p.nodes.size(); ++i) {
      if (p.nodes[i].kind != node_kind::call) {
        CHECK(verify(without_node(p, i)).reason == why::loops_do_not_nest);
        continue;
      }
      bool read = false;
      for (auto const& output : p.nodes[i].outputs) {
        auto const& info = p.values[output.value];
        if (info.accumulates || info.is_loop_carried() || is_observed(info))
          continue; // written elsewhere or read by the host
        for (auto const& n : p.nodes) read = read || n.inputs.contains(output);
      }
      calls_read += read ? 1 : 0;
      found += verify(without_node(p, i)).reason == why::read_before_written && read ? 1 : 0;
    }
    CHECK(found == calls_read);
  }
}

TEST_CASE("every pass keeps a program sound") {
  for (auto const& p : {built<gpt2_task>(), built<tagger_task>(), built<tied_task>(), built<chain_task<7>>()})
    for (int micro_batches : {1, 2})
      for (int every : {0, 1, 2, 3, 9}) {
        auto const selected = p;
        auto const without_dead_code = dead_code_elimination(selected);
        auto const accumulated = accumulate_over(without_dead_code, micro_batches);
        auto const gradients = differentiate(accumulated);
        auto const updates = update<optimizer::momentum>(gradients);
        auto const again = recompute(updates, every);
        auto const coalesced = coalesce(again);
        auto const shared = in_place(slice_views(coalesced));
        for (auto const* after :
             {&selected, &without_dead_code, &accumulated, &gradients, &updates, &again, &coalesced, &shared})
          CHECK(verify(*after) == diagnosis{});
      }
}
