// refused: run: `needs_of` of this kernel asks for a negative number of bytes of scratch memory
// shows: scratch_of_kernel<
// shows: twice
// shows: -2048
#include <constrain/constrain.hpp>

#include "twice.hpp"

template <> struct ct::kernel<twice, ct::cpu> : doubles {
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const& in, ct::operand_extents const&) {
#ifdef CORRECT
    return {.scratch = in[0].count};
#else
    return {.scratch = -in[0].count};
#endif
  }
};
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {};

using trainer = trainer_of_twice<>;

static_assert(trainer::memory.peak < ct::mebibytes(1)); // <- here
