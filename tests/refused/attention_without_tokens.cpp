// refused: a value has `got` dimensions, but needs `expected`; pass [sequences, tokens, features]
// shows: wrong_number_of_dimensions
// diagnosis: refused, line, 0, 3, 2
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 96});
#ifdef CORRECT
    auto const y = ct::mean(ct::self_attention(x, {.heads = 4}), ct::axis::tokens);
#else
    auto const y = ct::self_attention(ct::mean(x, ct::axis::tokens), {.heads = 4}); // <- line
#endif
    return ct::linear("head", y, 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
