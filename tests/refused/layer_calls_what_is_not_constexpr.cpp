// refused: task: the model or the objective is not a constant expression
// shows: model_is_not_constant
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

inline int hidden_of(int width) { return 2 * width; }

struct layer {
  int width = 64;
  constexpr ct::value operator()(ct::value x) const {
#ifdef CORRECT
    int const hidden = 8;
#else
    int const hidden = width > 8 ? hidden_of(width) : 8;
#endif
    return x + ct::linear("down", ct::linear("up", x, hidden), x.features());
  }
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::apply("layer", layer{}, x), 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
