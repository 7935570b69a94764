// refused: generate: an attention of the model is not causal, so it would attend to the padding after the tokens
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 64});
#ifdef CORRECT
    auto const y = ct::self_attention(ct::linear("qkv", x, 192), {.heads = 4});
#else
    auto const y = ct::self_attention(ct::linear("qkv", x, 192), {.heads = 4, .causal = false});
#endif
    return ct::linear("head", y, 256);
  }
};

using task = ct::task<model{}, ct::masked_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;

void use(ct::trainer<task>& t, std::span<std::int32_t const> tokens) {
  t.generate(tokens, 10); // <- here
}
