// refused: run: this kernel has `needs_of`, but is defined after the first use of a trainer that calls it
// shows: needs_are_planned<
// shows: twice
#include <constrain/constrain.hpp>

#include "twice.hpp"

struct doubles_with_scratch : doubles {
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const& in, ct::operand_extents const&) {
    return {.scratch = in[0].count};
  }
};

using trainer = trainer_of_twice<>;

#ifdef CORRECT
template <> struct ct::kernel<twice, ct::cpu> : doubles_with_scratch {};
#endif
static_assert(trainer::memory.peak < ct::mebibytes(1)); // needs the kernels' needs
#ifndef CORRECT
template <> struct ct::kernel<twice, ct::cpu> : doubles_with_scratch {};
#endif
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {}; // has none

void use(trainer& t, ct::batch const& w) {
  t.step(w); // <- here
}
