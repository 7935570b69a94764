#include "random_model.hpp"
#include "simulate.hpp"

#include <constrain/pass/sum_parts_together.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto const* sum = &info_of<op::sum_parts>;

// A block of GPT-2 has four biases and two norms: their gradients are summed at its end, one after another.
constexpr auto fused = fuse(updated(built<gpt2_task>(), 3), true);
constexpr auto together = sum_parts_together(fused);
static_assert(verify(together).ok() && calls(together, sum) == 4 + 2 * 2 + 2); // and the last norm's two
constexpr bool end_the_block(program const& p) {
  int last = -1, inside = 0;
  for (int i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].op == sum && p.values[p.nodes[i].outputs[0].value].axes.size() > 0) last = i, ++inside;
  bool ends = inside == 8 && p.nodes[last + 1].kind == node_kind::end;
  for (int i = last - 7; i <= last; ++i) ends = ends && p.nodes[i].op == sum && p.nodes[i].backward;
  return ends;
}
static_assert(end_the_block(together));

// The calls leave [parts, features], by the number of rows, and nothing else changes.
constexpr auto bias = gradient_of(together, "block.attention.qkv.bias");
constexpr ref parts_of(program const& p, int gradient) {
  for (auto const& n : p.nodes)
    if (n.op == sum && n.outputs[0].value == gradient) return n.inputs[0];
  return {};
}
static_assert(together.values[parts_of(together, bias).value].shape.rank == 2);
static_assert(together.values[parts_of(together, bias).value].shape.extent[0] ==
              row_parts(gpt2_task::sequences * small_gpt2.context));
static_assert(!together.values[parts_of(together, bias).value].accumulates && together.values[bias].accumulates);
static_assert(calls(together) == calls(fused) + calls(together, sum));
static_assert(same(sum_parts_together(together), together));

// An optimizer in the backward pass reads a gradient in the iteration that makes it: the sums come before.
constexpr auto at_once =
    sum_parts_together(fuse(updated<optimizer::in_backward<optimizer::sgd>>(built<gpt2_task>()), true));
static_assert(verify(at_once).ok() && calls(at_once, sum) == 10);
constexpr bool sums_come_first(program const& p) {
  for (int i = 0; i < p.nodes.size(); ++i)
    for (auto const& input : p.nodes[i].inputs) {
      if (p.values[input.value].role != role::gradient) continue;
      bool written = false;
      for (int k = 0; k < i; ++k) written = written || p.nodes[k].outputs.contains(input);
      if (!written) return false;
    }
  return true;
}
static_assert(sums_come_first(at_once) && sums_come_first(together));

// A bias of two products: both sums add to its gradient, in order.
struct shared_bias {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const weight = parameter(x, "weight", shape(4, 4), role::weight);
    auto const both = parameter(x, "bias", shape(4), role::bias);
    for (int i = 0; i < 2; ++i) x = silu(emit<op::linear>({x, weight, both}));
    return linear("head", x, 5);
  }
};
using shared_task = task<shared_bias{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr auto shared = sum_parts_together(fuse(updated(built<shared_task>()), true));
static_assert(verify(shared).ok() && calls(shared, sum) == 3);
static_assert([] {
  unsigned adds = 0;
  int written = 0;
  for (int i = 0; i < shared.nodes.size(); ++i)
    if (shared.nodes[i].op == sum && shared.nodes[i].outputs[0].value == gradient_of(shared, "bias"))
      adds |= (adds_of(shared, first_writers(shared), i) & 1u) << written++;
  return written == 2 && adds == 0b10; // the first overwrites
}());

// The sums that no gradient needs, those of a frozen parameter, stay in their call.
constexpr auto without_sums = fuse(built<gpt2_task>(), true);
static_assert(same(sum_parts_together(without_sums), without_sums));

} // namespace

TEST_CASE("programs with sums in parts read what they mean") {
  std::vector<program> programs{fused, updated(built<gpt2_task>(), 2, dtype::bf16), at_once};
  for (unsigned seed = 1; seed <= 30; ++seed)
    programs.push_back(fuse(recompute(updated(random_model(seed).build(), 1 + seed % 3), seed % 4), true));
  int sums = 0;
  for (auto const& p : programs) {
    auto const f = in_place(coalesce(sum_parts_together(p)));
    sums += calls(f, sum);
    CHECK(verify(f).ok());
    auto const s = simulate(f, plan_memory(f));
    CHECK(s.errors == std::vector<std::string>{});
  }
  CHECK(sums > 30);
}
