// refused: advise: the first argument must be a device policy; write ct::device::cpu{}, for example
#include <constrain/constrain.hpp>
namespace ct = constrain;

// For a transformer, compilers take up to half a minute.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 64});
    return ct::linear("head", ct::gelu(ct::linear("hidden", x, 256)), 256);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 64}>;

#ifdef CORRECT
auto const advice = ct::advise<task>(ct::device::cpu{}, ct::gibibytes(16));
#else
auto const advice = ct::advise<task>(task{}, ct::gibibytes(16)); // <- here
#endif
