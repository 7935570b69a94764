// refused: batches(corpus): a corpus labels every token with the next one, but the labels of the task's objective
// shows: for ct::masked_lm with .with_masks(...), train with ct::causal_lm
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// An objective that does not say what its labels are.
struct own_objective {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const { return ct::cross_entropy(logits, labels); }
};

struct encoder {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const seen = ct::self_attention(ct::linear("qkv", x, 192), {.heads = 2, .causal = false});
    return ct::linear("head", x + seen, 97);
  }
};

#ifdef CORRECT
using task = ct::task<encoder{}, own_objective, ct::micro_batch{.sequences = 2, .tokens = 32}>;
#else
using task = ct::task<encoder{}, ct::masked_lm, ct::micro_batch{.sequences = 2, .tokens = 32}>;
#endif

ct::fit_result use(ct::trainer<task>& t, ct::data::corpus const& corpus) {
  return ct::fit(t, corpus, {.steps = 500}); // <- here
}
