#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto built_program = built<gpt2_task>();
constexpr auto training = built_program;
constexpr auto evaluation = remove_training_ops(built_program);

static_assert(calls(built_program, &info_of<op::dropout>) == 3);
static_assert(same(training, built_program));
static_assert(calls(evaluation, &info_of<op::dropout>) == 0);
static_assert(calls(evaluation) == calls(training) - 3);
static_assert(verify(evaluation).ok());
static_assert(same(remove_training_ops(evaluation), evaluation));

/// Dropout is the last thing: the logits move to what it read.
struct dropped {
  constexpr value operator()(value tokens) const {
    return dropout(dropout(linear("head", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 5)));
  }
};
using dropped_task = task<dropped{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr auto last = built<dropped_task>();
constexpr auto moved = remove_training_ops(last);
static_assert(moved.result("logits").value != last.result("logits").value);
static_assert(moved.values[moved.result("logits").value].shape == shape(2, 3, 5));

/// Two attentions whose queries share keys and values; the second has lengths.
struct attending {
  static constexpr port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = per::sequence}};
  constexpr value operator()(value tokens, value lengths) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 32});
    attention_options const shared{.heads = 4, .key_value_heads = 2};
    auto const y = self_attention(x, shared) + self_attention(x, lengths, shared);
    return linear("head", y, 5);
  }
};
constexpr auto attends = built<task<attending{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>();
constexpr auto tiled = select_attention(attends, true);
constexpr shape logsumexp_shape() {
  for (auto const& n : tiled.nodes)
    if (calls(n, info_of<op::flash_attention>)) return tiled.values[n.outputs[1].value].shape;
  return shape();
}
static_assert(calls(attends, &info_of<op::attention>) == 2 && same(select_attention(attends, false), attends));
static_assert(calls(tiled, &info_of<op::attention>) == 0 && calls(tiled, &info_of<op::flash_attention>) == 2);
static_assert(logsumexp_shape() == shape(2, 4, 3) && verify(tiled).ok());

/// The probabilities of all iterations are too large: 2^12 * 2^36 elements. Flash attention does not store them.
struct deep {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const y = repeat("block", 4096, x, [](value z) { return z + self_attention(z, z, z, {.heads = 1}); });
    return linear("head", y, 5);
  }
};
constexpr auto deep_program = built<task<deep{}, causal_lm, micro_batch{.sequences = 1, .tokens = 1 << 18}>>();
static_assert(deep_program.failure.ok() && select_attention(deep_program, true).failure.ok());
static_assert(select_attention(deep_program, false).failure.reason == why::tensor_too_large);
static_assert(select_attention(deep_program, false).failure.called_from > 0);

} // namespace

TEST_CASE("select") {
  CHECK(print(remove_training_ops(last)) ==
        "%2 f32 [2, 3, 4] = embedding(token.weight, %0)\n"
        "%5 f32 [2, 3, 5] = linear(%2, head.weight, head.bias)\n"
        "%11 f64 [], %12 f32 [6], %13 f64 [6] = cross_entropy(%5, %9, inverse_label_count)\n"
        "%14 f64 [] = copy(%11)\n");
}
