// refused: run: this kernel has a member `needs_of` that cannot be called with the operands
// shows: needs_can_be_called<
// shows: twice
#include <constrain/constrain.hpp>

#include "twice.hpp"

template <> struct ct::kernel<twice, ct::cpu> : doubles {
#ifdef CORRECT
  static constexpr ct::kernel_needs needs_of(auto const& in, auto const&) { return {.scratch = in[0].count}; }
#else
  static constexpr ct::kernel_needs needs_of(auto const& in) { return {.scratch = in[0].count}; }
#endif
};
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {};

using trainer = trainer_of_twice<>;

static_assert(trainer::memory.peak < ct::mebibytes(1)); // <- here
