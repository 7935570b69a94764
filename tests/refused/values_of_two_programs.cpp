// refused: an operation or the body of a ct::repeat uses values of two models; use only values of the same model
// diagnosis: values_of_two_programs, line, 0, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    ct::builder other;
    auto const y = ct::parameter({other, {}}, "other", x.shape(), ct::role::weight);
#ifdef CORRECT
    return ct::linear("head", ct::mean(y.features() == 64 ? x : y, ct::axis::tokens), 4);
#else
    return ct::linear("head", ct::mean(x + y, ct::axis::tokens), 4); // <- line
#endif
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
