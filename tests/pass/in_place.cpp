#include "simulate.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto before =
    coalesce(dead_code_elimination(remove_training_ops(chain_task<3>::build(entry::predict, dtype::f32))));
constexpr auto after = in_place(before);

constexpr int sharing(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += info.overwritten_by ? 1 : 0;
  return count;
}
constexpr ref output(program const& p, op_info const* op) {
  for (auto const& n : p.nodes)
    if (n.op == op) return n.outputs[0];
  return {};
}

// The nodes stay, the bytes are shared: silu over the product it reads, the sum over silu's result.
static_assert(same(before, after) && sharing(before) == 0 && sharing(after) == 2);
constexpr auto product = output(after, &info_of<op::linear>), gate = output(after, &info_of<op::elementwise<op::silu>>);
static_assert(after.values[product.value].overwritten_by == gate);
static_assert(root_of(after, product) == output(after, &info_of<op::add>));
static_assert(plan_memory(after).end < plan_memory(before).end);

// The backward pass reads the product again, so nothing may overwrite it.
constexpr auto step = in_place(coalesce(updated(built<chain_task<3>>())));
static_assert(!step.values[output(step, &info_of<op::linear>).value].overwritten_by);
// The gradient of the logits replaces them, who are read for the last time.
constexpr auto logits = in_place(coalesce(updated(built<tied_task>())));
static_assert(root_of(logits, logits.result("logits")).value ==
              output(logits, &info_of<op::cross_entropy_gradient>).value);

// Element i of 8 bytes lies over two elements of 4 bytes, which a kernel reads later.
struct fold {
  static constexpr char const* name = "fold";
  static constexpr unsigned in_place = 0b1;
  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(dtype::f64, shape(in[0].shape.elements() / 2));
  }
};
constexpr program folded = [] {
  auto out = without_nodes(before);
  ref const x = out.call<op::copy>({before.result("logits")}).outputs[0];
  out.program.set_result("y", out.call<fold>({x}).outputs[0]);
  return out.program;
}();
static_assert(sharing(in_place(folded)) == 0);

} // namespace

TEST_CASE("in_place shares no bytes of what is read again") {
  for (auto const& p : {built<gpt2_task>(), built<tagger_task>(), built<tied_task>()})
    for (int every : {0, 1, 3}) {
      auto const c = coalesce(recompute(updated(p), every));
      auto const f = in_place(c);
      CHECK(sharing(f) > 0);
      auto const with = plan_memory(f), without = plan_memory(c);
      CHECK(with.end <= without.end);
      auto const s = simulate(f, with);
      CHECK(s.errors == std::vector<std::string>{});
      CHECK(s.left == simulate(c, without).left);
      for (int v = 0; v < f.values.size(); ++v) {
        auto const& info = f.values[v];
        if (!info.overwritten_by) continue;
        CHECK(!is_observed(info));
        CHECK(!info.accumulates);
        CHECK(!info.is_loop_carried());
      }
    }
}
