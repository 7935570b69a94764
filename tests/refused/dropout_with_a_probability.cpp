// refused: ct::dropout takes no probability; set the initial probability with the option `.dropout` of run_options
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    return ct::linear("head", ct::dropout(x), 97);
#else
    return ct::linear("head", ct::dropout(x, 0.1), 97); // <- here
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700));
