// refused: ct::cross_entropy: .z_loss is not in [0, 1e20]; give a number in this range
// shows: z_loss_is_out_of_range
// diagnosis: refused, any, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", x, 97);
  }
};
#ifdef CORRECT
constexpr double chosen = 1e-4;
#else
constexpr double chosen = -1;
#endif

using objective = ct::causal_lm_with<ct::cross_entropy_options{.z_loss = chosen}>;
using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
