#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto tied_step = differentiated(built<tied_task>());
static_assert(verify(tied_step).ok());

// A tied weight has one gradient, which both uses write: the second adds.
constexpr int writes(program const& p, int value, bool adding) {
  int count = 0;
  for (int i = 0; i < p.nodes.size(); ++i)
    for (int j = 0; j < p.nodes[i].outputs.size(); ++j)
      count +=
          p.nodes[i].outputs[j].value == value && ((adds_of(p, first_writers(p), i) >> j & 1u) != 0) == adding ? 1 : 0;
  return count;
}
static_assert(writes(tied_step, gradient_of(tied_step, "table"), false) == 1);
static_assert(writes(tied_step, gradient_of(tied_step, "table"), true) == 1);

// A stacked parameter has a stacked gradient; the backward loop is over the same axis.
constexpr auto chain_step = differentiated(built<chain_task<3>>());
constexpr auto weight = chain_step.values[named(chain_step, "block.up.weight")];
constexpr auto gradient = chain_step.values[gradient_of(chain_step, "block.up.weight")];
static_assert(gradient.axes == weight.axes && gradient.axes.size() == 1 && gradient.shape == weight.shape);
static_assert(gradient.accumulates && gradient.role == role::gradient);
static_assert(loops(chain_step) == 2);

// A value from outside that every iteration reads gets its gradient from every iteration: a buffer that adds up. It has
// the axes of the loops around its own definition.
constexpr auto tagger_step = differentiated(built<tagger_task>());
constexpr int buffers(program const& p, int depth) {
  int count = 0;
  for (auto const& info : p.values)
    count += info.accumulates && info.role == role::activation && info.axes.size() == depth ? 1 : 0;
  return count;
}
static_assert(verify(tagger_step).ok());
static_assert(buffers(tagger_step, 0) == 1); // `outside`, read by the iterations of both repeats
static_assert(buffers(tagger_step, 1) == 1); // `skip`, read by the inner repeat: one for each iteration of the outer
static_assert(buffers(chain_step, 0) + buffers(chain_step, 1) == 0);
static_assert(buffers(differentiated(built<tagger_task>(), 2), 1) == 1); // one for each micro-batch
static_assert(loops(tagger_step) == 6);

// Untrained parameters have no gradient.
struct frozen {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    return linear("head", linear("still", x, 4, {.bias = false, .role = role::frozen}), 5);
  }
};
constexpr auto frozen_step =
    differentiated(built<task<frozen{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>());
static_assert(verify(frozen_step).ok());
static_assert(gradient_of(frozen_step, "still.weight") < 0 && gradient_of(frozen_step, "head.weight") >= 0);
static_assert(calls(frozen_step, &info_of<op::linear_weight_gradient>) == 1);

// A step whose loop over micro-batches is missing is refused.
static_assert(differentiate(without_nodes(accumulate_over(built<tied_task>(), 2)).program).failure.refusal ==
              refusal_with<refusals::no_loop_over_micro_batches>());

// A parameter without a path is refused with the line of its layer.
struct forgotten {
  static constexpr int line = __LINE__ + 3;
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    linear("unused", x, 4);
    return linear("head", x, 5);
  }
};
constexpr auto refused =
    differentiated(built<task<forgotten{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>());
static_assert(refused.failure.refusal == refusal_with<refusals::parameter_without_path_to_the_loss>());
static_assert(refused.failure.line == forgotten::line);

// A pass may put calls before and after the loop over micro-batches. The ones before are differentiated after the loop.
constexpr program around_the_loop(program const& p) {
  auto out = without_nodes(p);
  ref const table{named(p, "table"), at::current};
  ref const twice = out.call<op::add>({table, table}).outputs[0];
  for (auto n : p.nodes) {
    if (calls(n, info_of<op::linear>)) n.inputs[1] = twice;
    out.program.add_node(n);
  }
  out.call<op::copy>({out.program.result("loss")});
  return out.program;
}
template <dtype compute> constexpr bool differentiates_around_the_loop() {
  auto const in = around_the_loop(mixed_precision(accumulate_over(built<tied_task>(), 2), compute));
  auto const out = differentiate(in);
  int const table = gradient_of(out, "table");
  bool reads = calls(out.nodes[out.nodes.size() - 1], info_of<op::copy>);
  for (int depth = 0; auto const& n : out.nodes) {
    depth += n.kind == node_kind::loop ? 1 : n.kind == node_kind::end ? -1 : 0;
    if (calls(n, info_of<op::linear_weight_gradient>)) reads = reads && depth == 1 && n.outputs[0].value != table;
  }
  return reads && verify(out).ok() && writes(out, table, false) == 1 && writes(out, table, true) == 2;
}
static_assert(differentiates_around_the_loop<dtype::f32>() && differentiates_around_the_loop<dtype::bf16>());

} // namespace

TEST_CASE("differentiate, in full") {
  CHECK(print(built<tied_task>()) == "%2 f32 [2, 3, 4] = embedding(table, %0)\n"
                                     "%3 f32 [2, 3, 4] = elementwise(%2)\n"
                                     "%4 f32 [2, 3, 5] = linear(%3, table)\n"
                                     "%7 f64 [], %8 f32 [6], %9 f64 [6] = cross_entropy(%4, %5, inverse_label_count)\n"
                                     "%10 f64 [] = copy(%7)\n");
  CHECK(print(tied_step) == print(built<tied_task>()) +
                                "%12 f64 [] = constant(%10)\n"
                                "%13 f32 [2, 3, 5] = cross_entropy_gradient(%12, %4, %5, %8, inverse_label_count)\n"
                                "%14 f32 [2, 3, 4] = linear_input_gradient(%13, table)\n"
                                "table.gradient f32 [5, 4] = linear_weight_gradient(%13, %3)\n"
                                "%15 f32 [2, 3, 4] = elementwise_gradient(%14, %2)\n"
                                "table.gradient f32 [5, 4] = embedding_gradient(%15, %0)\n");
  CHECK(print(chain_step) == print(built<chain_task<3>>()) +
                                 "%19 f64 [] = constant(%15)\n"
                                 "%20 f32 [2, 3, 5] = cross_entropy_gradient(%19, %9, %10, %13, inverse_label_count)\n"
                                 "%21 f32 [2, 3, 4] = linear_input_gradient(%20, head.weight)\n"
                                 "head.weight.gradient f32 [5, 4] = linear_weight_gradient(%20, %3@final)\n"
                                 "%22@final f32 [2, 3, 4] = copy(%21)\n"
                                 "loop block 3 reversed\n"
                                 "  %23 f32 [2, 3, 4] = elementwise_gradient(%22@next, %5)\n"
                                 "  %24 f32 [2, 3, 4] = linear_input_gradient(%23, block.up.weight)\n"
                                 "  block.up.weight.gradient f32 [4, 4] = linear_weight_gradient(%23, %3@current)\n"
                                 "  %25 f32 [2, 3, 4] = add(%22@next, %24)\n"
                                 "  %22@current f32 [2, 3, 4] = copy(%25)\n"
                                 "token.weight.gradient f32 [5, 4] = embedding_gradient(%22@initial, %0)\n");
}

TEST_CASE("every use of a parameter reaches its gradient") {
  for (auto const& p : {built<gpt2_task>(), built<tagger_task>(), built<chain_task<4>>()}) {
    auto const d = differentiated(p);
    REQUIRE(verify(d).ok());
    for (int v = 0; v < p.values.size(); ++v) {
      if (!is_trainable(p.values[v].role)) continue;
      int uses = 0;
      for (auto const& n : p.nodes) uses += n.inputs.contains({v, at::current}) ? 1 : 0;
      int const g = gradient_of(d, d.text(d.values[v].name));
      CHECK(writes(d, g, false) == 1);
      CHECK(writes(d, g, true) == uses - 1);
    }
  }
}
