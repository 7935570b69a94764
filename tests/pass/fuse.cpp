#include "random_model.hpp"
#include "simulate.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr bool untouched(program const& p) { return same(fuse(p, true), p); }

constexpr auto separate = updated(built<tied_task>());
static_assert(same(fuse(separate, false), separate));

/// The index of the only node of an op.
constexpr int place_of(program const& p, op_info const* op) {
  for (int i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].op == op) return i;
  return -1;
}
constexpr node only(program const& p, op_info const* op) { return p.nodes[place_of(p, op)]; }

// Accumulated and checkpointed, the patterns are the same; sharded after that, too.
constexpr auto accumulated = updated(built<gpt2_task>(), 3);
constexpr auto checkpointed = recompute(accumulated, 2);
constexpr auto sharded_fused = partition(fuse(checkpointed, true), true, 3);
static_assert(verify(sharded_fused).ok() && verify(partition(fuse(accumulated, true), true, 1)).ok());

template <auto model, class objective> using variant = task<model, objective, micro_batch{.sequences = 2, .tokens = 3}>;

// The sum in front of a norm, and what comes past the norm on the way back: a block's first norm has its sum in the
// iteration before, the last norm of all has no gradient past it.
constexpr auto residual = fuse(accumulated, true);
constexpr auto const* sum_and_norm = &info_of<op::dropout_add_layer_norm>;
constexpr auto const* norm_and_sum = &info_of<op::layer_norm_gradient_add>;
static_assert(calls(residual, sum_and_norm) == 1 && calls(residual, &info_of<op::layer_norm>) == 2);
static_assert(calls(residual, norm_and_sum) == 2 && calls(residual, &info_of<op::layer_norm_gradient>) == 1);
static_assert(calls(residual, &info_of<op::dropout_add>) == 1);    // at the end of a block
static_assert(calls(fuse(checkpointed, true), sum_and_norm) == 2); // once more in the clone
static_assert(calls(sharded_fused, sum_and_norm) == 2 && calls(sharded_fused, norm_and_sum) == 2);
static_assert(verify(residual).ok() && same(fuse(residual, true), residual));

// A layer's output is dropped where it is added, and once more on the way back, where its bias is summed. The key of
// the draws stays.
static_assert(calls(residual, &info_of<op::add>) == 0 && calls(residual, &info_of<op::add_layer_norm>) == 0);
static_assert(calls(residual, &info_of<op::dropout_bias_gradient>) == 2);
static_assert(calls(residual, &info_of<op::dropout>) == 2); // of the embeddings, and back
static_assert(only(residual, sum_and_norm).random_key == 2);
static_assert(only(residual, &info_of<op::dropout_add>).random_key == 3);

// A sum that only the norm reads would need its own buffer, and a sum with another reader in between is needed earlier.
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
struct own_weight { // the sum is also the weight of its norm
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const sum = parameter(x, "a", shape(4), role::bias) + parameter(x, "b", shape(4), role::bias);
    auto const normed = emit<op::layer_norm>({sum, sum, parameter(x, "c", shape(4), role::bias)});
    return linear("head", emit<op::linear>({x, parameter(x, "w", shape(4, 4), role::weight), normed + sum}), 5);
  }
};
constexpr auto predicted(program const& p) { return dead_code_elimination(remove_training_ops(p)); }
static_assert(untouched(predicted(variant<post_norm{}, causal_lm>::build(entry::predict, dtype::f32))));
static_assert(untouched(predicted(variant<read_before{}, causal_lm>::build(entry::predict, dtype::f32))));
static_assert(untouched(predicted(variant<own_weight{}, causal_lm>::build(entry::predict, dtype::f32))));

// The bias in front of an activation is summed while the activation's gradient is made.
constexpr auto const* with_bias = &info_of<op::elementwise_gradient_bias<op::gelu_tanh>>;
static_assert(calls(residual, with_bias) == 1 && calls(residual, &info_of<op::linear_bias_gradient>) == 1);
static_assert(calls(residual, &info_of<op::elementwise_gradient<op::gelu_tanh>>) == 0);
static_assert(only(residual, with_bias).outputs[1] == ref{gradient_of(residual, "block.mlp.up.bias"), at::current});
static_assert(calls(sharded_fused, with_bias) == 1);

// The loss and its gradient are computed together. The constant gradient of the loss then comes first.
constexpr auto const* loss_and_gradient = &info_of<op::cross_entropy_and_gradient>;
static_assert(calls(residual, loss_and_gradient) == 1 && calls(residual, &info_of<op::cross_entropy>) == 0);
static_assert(calls(residual, &info_of<op::cross_entropy_gradient>) == 0);
static_assert(place_of(residual, &info_of<op::constant_like>) + 1 == place_of(residual, loss_and_gradient));
static_assert(only(residual, &info_of<op::constant_like>).inputs[0] == only(residual, loss_and_gradient).inputs[2]);
static_assert(only(residual, &info_of<op::constant_like>).outputs[0] == only(residual, loss_and_gradient).inputs[3]);
// A loss without a gradient, and logsumexps that something else reads, stay.
static_assert(untouched(predicted(variant<post_norm{}, causal_lm>::build(entry::evaluate, dtype::f32))));

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
    if (shared.nodes[i].op == with_shared_bias)
      adds |= (adds_of(shared, first_writers(shared), i) >> 1 & 1u) << written++;
  return adds == 0b10; // the first overwrites
}());

} // namespace

TEST_CASE("fused programs read what they mean and need no more bytes") {
  std::vector<program> programs{separate, accumulated, checkpointed, updated(built<chain_task<3>>(), 2, dtype::bf16)};
  for (unsigned seed = 1; seed <= 30; ++seed)
    programs.push_back(recompute(updated(random_model(seed).build(), 1 + seed % 3), seed % 4));
  int sums = 0, gradients = 0;
  for (auto const& p : programs) {
    auto const f = in_place(coalesce(fuse(p, true)));
    sums += calls(f, sum_and_norm), gradients += calls(f, norm_and_sum);
    CHECK(verify(f).ok());
    auto const where = plan_memory(f);
    CHECK(where.end <= plan_memory(in_place(coalesce(p))).end + peak_live_bytes(f, where, role::workspace).count());
    auto const s = simulate(f, where);
    CHECK(s.errors == std::vector<std::string>{});
  }
  CHECK(sums > 0);
  CHECK(gradients > 0);
}
