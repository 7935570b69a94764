// refused: largest_batch: the model has no member `context` above 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct own_model {
#ifdef CORRECT
  static constexpr int context = 16;
#endif
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("table", tokens, {.vocabulary = 11, .width = 4}), 11);
  }
};
constexpr auto batch = ct::largest_batch<ct::mebibytes(1), own_model{}, ct::causal_lm>; // <- here
