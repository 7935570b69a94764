#include "pass/programs.hpp"

#include <constrain/program/reach.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto p = built<tagger_task>(); // axes: outer 0, inner 1, tail 2

constexpr axis_list around(std::initializer_list<int> axes) {
  axis_list out;
  for (int axis : axes) out.push_back(axis);
  return out;
}
/// The first value with those axes, or the one carried along `carried`.
constexpr ref made_in(axis_list const& axes, at where = at::current, int carried = -1) {
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].axes == axes && p.values[v].loop_carried_axis == carried) return {v, where};
  return {};
}
constexpr ref tokens = p.nth(port_kind::input, 0).where;
constexpr bool reaches(ref r, std::initializer_list<int> enclosing) { return is_in_reach(p, r, around(enclosing)); }

// Values from outside of loops can be read everywhere.
static_assert(reaches(tokens, {}) && reaches(tokens, {2}) && reaches(tokens, {0, 1}));
// Values from a body can be read there and in nested bodies, not outside or in another repeat.
constexpr ref in_outer = made_in(around({0})), in_inner = made_in(around({0, 1})), in_tail = made_in(around({2}));
static_assert(reaches(in_outer, {0}) && reaches(in_outer, {0, 1}) && !reaches(in_outer, {}) && !reaches(in_outer, {2}));
static_assert(reaches(in_inner, {0, 1}) && !reaches(in_inner, {0}) && !reaches(in_inner, {}));
static_assert(!reaches(in_inner, {1}) && !reaches(in_inner, {2, 1}));
static_assert(reaches(in_tail, {2}) && !reaches(in_tail, {0}) && !reaches(in_tail, {0, 2}));
// A body's argument in its own loop; what a repeat starts and ends with, around it.
constexpr ref of_inner = made_in(around({0}), at::current, 1);
static_assert(reaches(of_inner, {0, 1}) && !reaches(of_inner, {0}) && !reaches(of_inner, {}));
static_assert(!reaches(of_inner, {0, 2}));
static_assert(reaches({of_inner.value, at::next}, {0, 1}) && !reaches({of_inner.value, at::next}, {0}));
static_assert(reaches({of_inner.value, at::initial}, {0}) && reaches({of_inner.value, at::final}, {0}) &&
              !reaches({of_inner.value, at::final}, {}) && !reaches({of_inner.value, at::final}, {2}));

// A parameter has one instance for all micro-batches.
constexpr auto over_micro_batches = accumulate_over(p, 2);
constexpr ref skip{named(over_micro_batches, "outer.skip.weight"), at::current};
constexpr int micro_batch = over_micro_batches.micro_batches;
static_assert(is_in_reach(over_micro_batches, skip, around({micro_batch, 0})));
static_assert(!is_in_reach(over_micro_batches, skip, around({micro_batch, 2})));
static_assert(!is_in_reach(over_micro_batches, skip, around({micro_batch})));

} // namespace

TEST_CASE("every operand of a model stands in reach") {
  for (auto const& each : {built<tied_task>(), built<tagger_task>(), built<gpt2_task>(), over_micro_batches}) {
    axis_list enclosing;
    for (auto const& n : each.nodes) {
      if (n.kind == node_kind::loop) enclosing.push_back(n.axis);
      if (n.kind == node_kind::end) enclosing.pop_back();
      for (auto const& input : n.inputs) CHECK(is_in_reach(each, input, enclosing));
    }
  }
}
