#include "simulate.hpp"

#include <constrain/pass/rematerialize.hpp>
#include <doctest/doctest.h>

#include <random>

using namespace constrain;
using namespace constrain::test;

namespace {

/// A body with much to keep, between layers that are not repeated.
struct deep {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    x = silu(linear("in", x, 4));
    x = repeat("block", 6, x,
               [](value x) { return x + linear("down", dropout(silu(linear("up", layer_norm("norm", x), 16))), 4); });
    return linear("head", layer_norm("last", x), 5);
  }
};
using deep_task = task<deep{}, causal_lm, micro_batch{.sequences = 8, .tokens = 16}>;

constexpr auto none = updated(built<deep_task>());
constexpr auto keeps_nothing = rematerialize_all_but(none, {});
constexpr auto keeps_linear = [] {
  op_set kept;
  kept.add(info_of<op::linear>);
  return rematerialize_all_but(none, kept);
}();
using silu_op = op::elementwise<op::silu>;

static_assert(verify(keeps_nothing).ok() && verify(keeps_linear).ok());
static_assert(same(rematerialize(none, {}), none));
// Everything twice, but for the last product of a body, which nothing reads, and the logits, which are read at once.
static_assert(runs(none, &info_of<op::linear>) == 1 + 2 * 6 + 1);
static_assert(runs(keeps_nothing, &info_of<op::linear>) == 2 * 1 + 3 * 6 + 1);
static_assert(runs(keeps_linear, &info_of<op::linear>) == runs(none, &info_of<op::linear>));
static_assert(runs(keeps_linear, &info_of<silu_op>) ==
              1 + 2 * 6); // the first is the input of the repeat, which is kept
static_assert(runs(keeps_linear, &info_of<op::layer_norm>) == 2 * (6 + 1));
static_assert(loops(keeps_nothing) == loops(none));

// The backward pass is marked, in a loop over micro-batches too.
constexpr bool marks_backward(program const& p) {
  bool seen = false;
  for (auto const& n : p.nodes) {
    if (n.backward) seen = true;
    if (n.kind == node_kind::call && !seen && !(n.op->has_gradient || n.op->identity == info_of<op::copy>.identity))
      return false;
  }
  return seen;
}
static_assert(marks_backward(none) && marks_backward(updated(built<deep_task>(), 3)));

/// The program without attention's choice, and with flash attention.
constexpr auto quadratic = updated(select_attention(built<gpt2_task>(), false));
constexpr auto tiled = updated(select_attention(built<gpt2_task>(), true));
constexpr int clones_of_attention(program const& p, op_info const* op, bool keeps) {
  op_set kept;
  if (keeps) kept.add(info_of<op::attention>);
  return calls(rematerialize_all_but(p, kept), op) - calls(p, op);
}
static_assert(clones_of_attention(quadratic, &info_of<op::attention>, false) == 1);
static_assert(clones_of_attention(quadratic, &info_of<op::attention>, true) == 0);
static_assert(clones_of_attention(tiled, &info_of<op::flash_attention>, false) == 1);
static_assert(clones_of_attention(tiled, &info_of<op::flash_attention>, true) == 0);

/// Its rule uses its weight's gradient and then its output, but not its weight: with optimizer::in_backward, the weight
/// is updated before.
struct weight_first : op::linear {
  static constexpr char const* name = "weight_first";
  static constexpr void gradient(backward& b) {
    b.emit<op::linear_weight_gradient>({b.gradient(), b.input(0)}, {1});
    b.add(0, b.gradient() * b.output());
  }
};
struct updated_early {
  constexpr value operator()(value tokens) const {
    auto const x = linear("in", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 4);
    auto const y = repeat("block", 2, x, [](value h) {
      return h + emit<weight_first>({h, parameter(h, "weight", shape(4, 4), role::weight)});
    });
    return linear("head", emit<weight_first>({y, parameter(y, "last", shape(4, 4), role::weight)}), 5);
  }
};
using updated_early_task = task<updated_early{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;

/// Compares what is left after a run: of a program without recomputation, and of random choices.
void check_choices(program const& p, unsigned seed, int choices) {
  auto const reference = simulate(p, plan_memory(p));
  REQUIRE(reference.errors.empty());
  constrain::detail::rematerialization const forward(p);
  std::mt19937 random(seed);
  for (int choice = 0; choice < choices; ++choice) {
    node_set dropped;
    for (int i = 0; i < p.nodes.size(); ++i)
      if (choice == 0 || random() % 2 == 0) dropped.add(i); // nodes that cannot be dropped make no difference
    auto const out = forward.run(dropped);
    CAPTURE(choice);
    CHECK(verify(out).ok());
    auto const s = simulate(out, plan_memory(out));
    CHECK(s.errors == std::vector<std::string>{});
    for (auto const& [v, computed] : s.left) // other values may overwrite a gradient after its update
      if (!p.values[v].ends_with_update) CHECK(computed == reference.left.at(v));
  }
}

constexpr std::int64_t without_weights(program const& p) {
  auto const at = plan_memory(coalesce(p));
  return at.end - at.persistent_end;
}

} // namespace

TEST_CASE("rematerialize: any choice leaves what no recomputation leaves") {
  check_choices(none, 1, 40);
  check_choices(updated(built<deep_task>(), 3), 2, 20);
  check_choices(updated(built<deep_task>(), 2, dtype::bf16), 3, 20);
  check_choices(updated(built<tied_task>()), 4, 10);
}

TEST_CASE("rematerialize: nested repeats and values from outside") {
  check_choices(updated(built<tagger_task>()), 5, 60);
  check_choices(updated(built<tagger_task>(), 3), 6, 30);
}

TEST_CASE("rematerialize: updates in the backward pass") {
  check_choices(updated<optimizer::in_backward<optimizer::sgd>>(built<deep_task>()), 9, 20);
  check_choices(updated<optimizer::in_backward<optimizer::sgd>>(built<updated_early_task>()), 10, 20);
}

TEST_CASE("rematerialize: attention") {
  check_choices(quadratic, 7, 20);
  check_choices(tiled, 8, 20);
}

TEST_CASE("rematerialize: what is computed again is not kept") {
  CHECK(without_weights(keeps_nothing) < without_weights(none) / 2);
  CHECK(without_weights(keeps_nothing) < without_weights(keeps_linear));
  CHECK(without_weights(keeps_linear) < without_weights(none));
}

TEST_CASE("rematerialize, in full") {
  auto const text = print(rematerialize_all_but(updated<optimizer::sgd>(built<chain_task<3>>()), {}));
  CHECK(text.substr(0, text.find("%26")) ==
        "%2 f32 [2, 3, 4] = embedding(token.weight, %0)\n"
        "%3@initial f32 [2, 3, 4] = copy(%2)\n"
        "loop block 3\n"
        "  %5 f32 [2, 3, 4] = linear(%3@current, block.up.weight)\n"
        "  %6 f32 [2, 3, 4] = elementwise(%5)\n"
        "  %7 f32 [2, 3, 4] = add(%3@current, %6)\n"
        "  %3@next f32 [2, 3, 4] = copy(%7)\n"
        "%9 f32 [2, 3, 5] = linear(%3@final, head.weight)\n"
        "%12 f64 [], %13 f32 [6], %14 f64 [6] = cross_entropy(%9, %10, inverse_label_count)\n"
        "%15 f64 [] = copy(%12)\n"
        "%19 f64 [] = constant(%15)\n"
        "%20 f32 [2, 3, 5] = cross_entropy_gradient(%19, %9, %10, %13, inverse_label_count)\n"
        "%21 f32 [2, 3, 4] = linear_input_gradient(%20, head.weight)\n"
        "head.weight.gradient f32 [5, 4] = linear_weight_gradient(%20, %3@final)\n"
        "%22@final f32 [2, 3, 4] = copy(%21)\n"
        "loop block 3 reversed\n"
        "  %30 f32 [2, 3, 4] = linear(%3@current, block.up.weight)\n"
        "  %23 f32 [2, 3, 4] = elementwise_gradient(%22@next, %30)\n"
        "  %24 f32 [2, 3, 4] = linear_input_gradient(%23, block.up.weight)\n"
        "  block.up.weight.gradient f32 [4, 4] = linear_weight_gradient(%23, %3@current)\n"
        "  %25 f32 [2, 3, 4] = add(%22@next, %24)\n"
        "  %22@current f32 [2, 3, 4] = copy(%25)\n"
        "token.weight.gradient f32 [5, 4] = embedding_gradient(%22@initial, %0)\n");
}
