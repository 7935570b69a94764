// refused: evaluate(corpus): a corpus is one sequence of tokens, and the label of every token is the next token
// shows: for ct::masked_lm with .with_masks(...), or write evaluate(inputs, labels)
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct encoder {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const seen = ct::self_attention(ct::linear("qkv", x, 192), {.heads = 2, .causal = false});
    return ct::linear("head", x + seen, 97);
  }
};

using task = ct::task<encoder{}, ct::masked_lm, ct::micro_batch{.sequences = 2, .tokens = 32}>;

ct::evaluation use(ct::trainer<task>& t, [[maybe_unused]] ct::data::corpus const& corpus,
                   [[maybe_unused]] std::span<std::int32_t const> tokens) {
#ifdef CORRECT
  return t.evaluate(ct::data::examples(tokens, tokens).with_masks({.mask_token = 96, .vocabulary = 97}));
#else
  return t.evaluate(corpus); // <- here
#endif
}
