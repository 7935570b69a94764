// refused: ct::masked_lm needs logits of shape [sequences, tokens, vocabulary]
// shows: logits_are_not_per_token
// diagnosis: refused, any, any, 3, 2
#include <constrain/constrain.hpp>
namespace ct = constrain;

constexpr ct::bert model{.layers = 2, .heads = 2, .width = 64, .hidden = 128, .vocabulary = 97, .context = 32};
#ifdef CORRECT
using task = ct::task<model, ct::masked_lm, ct::micro_batch{.sequences = 8}>;
#else
using task = ct::task<model.with_classes(3), ct::masked_lm, ct::micro_batch{.sequences = 8}>;
#endif
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
