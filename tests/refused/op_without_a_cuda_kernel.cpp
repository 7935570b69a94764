// refused: run: this op has no kernel for this device and these operands
// shows: [with op=twice, device=cuda<sm<90>>,
// not for: gnu clang
// diagnosis: refused, line, 0, any, any
#include <constrain/constrain.hpp>

#include "twice.hpp"

template <> struct ct::kernel<twice, ct::cpu> : doubles {};
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {};
#ifdef CORRECT
template <class architecture> struct ct::kernel<twice, ct::cuda<architecture>> : doubles {};
template <class architecture> struct ct::kernel<twice_gradient, ct::cuda<architecture>> : doubles {};
#endif
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<twice>({x}), 97); // <- line
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;

using trainer = ct::trainer<task, ct::device::cuda<ct::sm<90>>>;

void use(trainer& t, ct::batch const& b) {
  t.step(b), t.predict(b.inputs); // <- here
}
