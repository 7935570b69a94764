#include "simulate.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto const* step_op = &info_of<op::linear_cross_entropy_forward_backward>;
constexpr auto const* evaluation_op = &info_of<op::linear_cross_entropy>;
constexpr bool untouched(program const& p) { return same(fuse(p, true), p); }

// A product with its loss and three gradients is one node; the gradient of the loss is its constant.
constexpr auto separate = updated(built<tied_task>());
constexpr auto fused = fuse(separate, true);
static_assert(calls(fused, step_op) == 1 && calls(fused) == calls(separate) - 5);
static_assert(calls(fused, &info_of<op::linear>) == 0 && calls(fused, &info_of<op::constant_like>) == 0);
static_assert(verify(fused).ok() && same(fuse(fused, true), fused));
static_assert(same(fuse(separate, false), separate));

/// Where the one node of an op stands.
constexpr int place_of(program const& p, op_info const* op) {
  for (int i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].op == op) return i;
  return -1;
}
constexpr node only(program const& p, op_info const* op) { return p.nodes[place_of(p, op)]; }
constexpr unsigned adds(program const& p, op_info const* op) { return adds_of(p, place_of(p, op)); }

// A tied weight: the product's gradient is written first and the embedding's adds, as before.
constexpr auto step = only(fused, step_op);
static_assert(step.outputs[2] == ref{gradient_of(fused, "table"), at::current} && adds(fused, step_op) == 0);
static_assert(adds(fused, &info_of<op::embedding_gradient>) == 1);
static_assert(unpack<op::linear_cross_entropy_forward_backward::options>(step.attributes).loss_gradient == 1);
static_assert(fused.values[step.outputs[3].value].role == role::workspace &&
              fused.values[step.outputs[4].value].role == role::workspace);

// Accumulated, checkpointed and cast, the pattern is the same. Sharded after that, one gather of a weight is left of
// two.
constexpr bool is_fused(program const& p) {
  auto const f = fuse(p, true);
  return verify(f).ok() && calls(f, step_op) == 1 && calls(f, &info_of<op::cross_entropy>) == 0;
}
constexpr auto accumulated = updated(built<gpt2_task>(), 3);
constexpr auto checkpointed = recompute(accumulated, 2);
static_assert(is_fused(accumulated));
static_assert(is_fused(checkpointed));
static_assert(is_fused(updated(built<chain_task<3>>(), 2)));
static_assert(is_fused(updated(built<chain_task<3>>(), 2, dtype::bf16)));
constexpr auto sharded = shard(checkpointed, true, 3);
constexpr auto sharded_fused = shard(fuse(checkpointed, true), true, 3);
static_assert(verify(sharded_fused).ok() && verify(shard(fuse(accumulated, true), true, 1)).ok());
static_assert(calls(sharded_fused, step_op) == 1 && calls(sharded_fused, &info_of<op::cross_entropy>) == 0);
static_assert(calls(sharded_fused, &info_of<op::all_gather>) == calls(sharded, &info_of<op::all_gather>) - 1);
static_assert(calls(sharded_fused, &info_of<op::reduce_scatter>) == calls(sharded, &info_of<op::reduce_scatter>));

// In evaluation the correct predictions are counted with the loss; who wants the logits gets them.
constexpr auto evaluated = dead_code_elimination(
    remove_training_ops(task<small_gpt2, causal_lm, micro_batch{.sequences = 2}>::build(entry::evaluate, dtype::f32)));
constexpr auto evaluated_fused = fuse(evaluated, true);
static_assert(calls(evaluated_fused, evaluation_op) == 1 && calls(evaluated_fused) == calls(evaluated) - 3);
static_assert(only(evaluated_fused, evaluation_op).outputs[1] == evaluated.result("correct") &&
              verify(evaluated_fused).ok());
static_assert(untouched(dead_code_elimination(tied_task::build(entry::predict, dtype::f32))));

// What does not match stays: a bias, another reader of the logits, a loss that is not the whole, ...
struct halved {
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x / 2; }
  template <class real> CT_HOST_DEVICE static real gradient(real, real, real dy) { return dy / 2; }
};
struct biased {
  constexpr value operator()(value tokens) const {
    return linear("head", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 5);
  }
};
struct two_readers {
  constexpr value operator()(value logits, value labels) const {
    return cross_entropy(logits, labels) + cross_entropy(elementwise<halved>(logits), labels);
  }
};
struct half_a_loss {
  constexpr value operator()(value logits, value labels) const {
    return elementwise<halved>(cross_entropy(logits, labels));
  }
};
template <auto model, class objective> using variant = task<model, objective, micro_batch{.sequences = 2, .tokens = 3}>;
static_assert(untouched(updated(built<variant<biased{}, causal_lm>>())));
static_assert(untouched(updated(built<variant<tied{}, two_readers>>())));
static_assert(untouched(updated(built<variant<tied{}, half_a_loss>>())));

// ... a weight or an input that nobody trains, ...
template <bool weight> struct frozen {
  constexpr value operator()(value tokens) const {
    auto const roles = weight ? role::frozen : role::head;
    auto const table = parameter(tokens, "table", shape(5, 4), weight ? role::embedding : role::frozen);
    return linear("head", embedding(table, tokens), 5, {.bias = false, .role = roles});
  }
};
static_assert(untouched(updated(built<variant<frozen<true>{}, causal_lm>>())));
static_assert(untouched(updated(built<variant<frozen<false>{}, causal_lm>>())));

// ... or a gradient to which another node adds between the loss and its own: of two heads with one weight the last is
// fused, whose gradient is the first.
struct features {
  constexpr value operator()(value tokens) const { return embedding("token", tokens, {.vocabulary = 5, .width = 4}); }
};
struct two_heads {
  constexpr value operator()(value x, value labels) const {
    auto const weight = parameter(x, "head", shape(5, 4), role::head);
    return cross_entropy(linear(x, weight), labels) + cross_entropy(linear(silu(x), weight), labels);
  }
};
constexpr auto two = fuse(updated(built<variant<features{}, two_heads>>()), true);
static_assert(verify(two).ok() && calls(two, step_op) == 1 && calls(two, &info_of<op::cross_entropy>) == 1);
static_assert(adds(two, step_op) == 0 && adds(two, &info_of<op::linear_weight_gradient>) == 1);

// The sum in front of a norm, and what comes past the norm on the way back: a block's first norm has its sum in the
// iteration before, the last norm of all has no gradient past it.
constexpr auto residual = fuse(accumulated, true);
constexpr auto const* sum_and_norm = &info_of<op::add_layer_norm>;
constexpr auto const* norm_and_sum = &info_of<op::layer_norm_gradient_add>;
static_assert(calls(residual, sum_and_norm) == 1 && calls(residual, &info_of<op::layer_norm>) == 2);
static_assert(calls(residual, norm_and_sum) == 2 && calls(residual, &info_of<op::layer_norm_gradient>) == 1);
static_assert(calls(residual, &info_of<op::add>) == 1);            // at the end of a block
static_assert(calls(fuse(checkpointed, true), sum_and_norm) == 2); // once more in the clone
static_assert(calls(sharded_fused, sum_and_norm) == 2 && calls(sharded_fused, norm_and_sum) == 2);
static_assert(verify(residual).ok() && same(fuse(residual, true), residual));

// A sum that the norm alone reads would need bytes of its own, and one with another reader in between is needed
// earlier.
struct post_norm {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    return linear("head", layer_norm("norm", x + linear("up", x, 4)), 5);
  }
};
struct read_before {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const sum = x + linear("up", x, 4);
    auto const beside = silu(sum);
    return linear("head", beside * layer_norm("norm", sum), 5);
  }
};
constexpr auto predicted(program const& p) { return dead_code_elimination(remove_training_ops(p)); }
static_assert(untouched(predicted(variant<post_norm{}, causal_lm>::build(entry::predict, dtype::f32))));
static_assert(untouched(predicted(variant<read_before{}, causal_lm>::build(entry::predict, dtype::f32))));

// The bias in front of an activation is summed while the activation's gradient is made.
constexpr auto const* with_bias = &info_of<op::elementwise_gradient_bias<op::gelu_tanh>>;
static_assert(calls(residual, with_bias) == 1 && calls(residual, &info_of<op::linear_bias_gradient>) == 3);
static_assert(calls(residual, &info_of<op::elementwise_gradient<op::gelu_tanh>>) == 0);
static_assert(only(residual, with_bias).outputs[1] == ref{gradient_of(residual, "block.mlp.up.bias"), at::current});
static_assert(calls(sharded_fused, with_bias) == 1);

// Without a bias there is nothing to sum; a bias shared by two products is added to by both.
static_assert(calls(fuse(updated(built<chain_task<3>>()), true), &info_of<op::elementwise_gradient<op::silu>>) == 1);
struct shared_bias {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const weight = parameter(x, "weight", shape(4, 4), role::weight);
    auto const bias = parameter(x, "bias", shape(4), role::bias);
    for (int i = 0; i < 2; ++i) x = silu(emit<op::linear>({x, weight, bias}));
    return linear("head", x, 5);
  }
};
constexpr auto shared = fuse(updated(built<variant<shared_bias{}, causal_lm>>()), true);
constexpr auto const* with_shared_bias = &info_of<op::elementwise_gradient_bias<op::silu>>;
static_assert(verify(shared).ok() && calls(shared, with_shared_bias) == 2);
static_assert([] {
  unsigned adds = 0;
  int written = 0;
  for (int i = 0; i < shared.nodes.size(); ++i)
    if (shared.nodes[i].op == with_shared_bias) adds |= (adds_of(shared, i) >> 1 & 1u) << written++;
  return adds == 0b10; // the first overwrites
}());

} // namespace

TEST_CASE("fuse, in full") {
  CHECK(print(differentiated(built<tied_task>())) ==
        "%2 f32 [2, 3, 4] = embedding(table, %0)\n"
        "%3 f32 [2, 3, 4] = elementwise(%2)\n"
        "%4 f32 [2, 3, 5] = linear(%3, table)\n"
        "%7 f64 [], %8 f32 [6], %9 f64 [6] = cross_entropy(%4, %5, inverse_label_count)\n"
        "%10 f64 [] = copy(%7)\n"
        "%12 f64 [] = constant(%10)\n"
        "%13 f32 [2, 3, 5] = cross_entropy_gradient(%12, %4, %5, %8, inverse_label_count)\n"
        "%14 f32 [2, 3, 4] = linear_input_gradient(%13, table)\n"
        "table.gradient f32 [5, 4] = linear_weight_gradient(%13, %3)\n"
        "%15 f32 [2, 3, 4] = elementwise_gradient(%14, %2)\n"
        "table.gradient f32 [5, 4] = embedding_gradient(%15, %0)\n");
  auto const text = print(fused);
  CHECK(text.substr(0, text.find("%16 f64")) ==
        "%2 f32 [2, 3, 4] = embedding(table, %0)\n"
        "%3 f32 [2, 3, 4] = elementwise(%2)\n"
        "%7 f64 [], %14 f32 [2, 3, 4], table.gradient f32 [5, 4], %22 f32 [6, 5], %23 f64 [6] = "
        "linear_cross_entropy_forward_backward(%3, table, %5, inverse_label_count)\n"
        "%10 f64 [] = copy(%7)\n"
        "%15 f32 [2, 3, 4] = elementwise_gradient(%14, %2)\n"
        "table.gradient f32 [5, 4] = embedding_gradient(%15, %0)\n");
}

TEST_CASE("fused programs read what they mean and need no more bytes") {
  std::vector<program> programs{separate, accumulated, checkpointed, updated(built<chain_task<3>>(), 2, dtype::bf16)};
  for (unsigned seed = 1; seed <= 30; ++seed)
    programs.push_back(recompute(updated(random_model(seed).build(), 1 + seed % 3), seed % 4));
  int heads = 0, sums = 0, gradients = 0;
  for (auto const& p : programs) {
    auto const f = in_place(coalesce(fuse(p, true)));
    heads += calls(f, step_op), sums += calls(f, sum_and_norm), gradients += calls(f, norm_and_sum);
    CHECK(verify(f).ok());
    auto const where = plan_memory(f);
    // Of so few rows there are as many chunks: at the worst their sums come on top.
    CHECK(where.end <= plan_memory(in_place(coalesce(p))).end + most_at_once(f, where, role::workspace).count());
    auto const s = simulate(f, where);
    CHECK(s.errors == std::vector<std::string>{});
  }
  CHECK(heads > 15);
  CHECK(sums > 0);
  CHECK(gradients > 0);
}
