// refused: give at most eight parts, each with an extent of at least 1, whose extents add up to `expected`
// diagnosis: refused, line, line, 12, 12
// shows: parts_do_not_fit
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 8});
#ifdef CORRECT
    auto const nine = ct::linear("nine", x, 12, {.parts = {5, 1, 1, 1, 1, 1, 1, 1}});
#else
    auto const nine = ct::linear("nine", x, 12, {.parts = {5, 1, 1, 1, 1, 1, 1, 1, 1}}); // <- line
#endif
    return ct::linear("head", nine, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
