// refused: two extents that must be equal are `expected` and `got`
// shows: widths_differ
// diagnosis: refused, line, 0, 64, 48
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int width = 64;
#else
constexpr int width = 48;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::linear("up", x, width);
    auto const sum = x + y; // <- line
    return ct::linear("head", ct::mean(sum, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
