#pragma once

#include "constrain/run/arena.hpp"
#include "constrain/train/parameter_table.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Writes the initial values of a parameter, an optimizer state or a setting. If the tensor is sharded or divided over
/// ranks, writes only the elements that this rank stores, and fills the rank's padding with zeros (with the constant,
/// if the dtype is an integer). `rank`: the rank's index in `ranks::storage_group`, as in `tensor_info::for_each_run`.
/// `index`: the index of the parameter or setting; for a state, the index of the state's parameter. An element is a
/// constant plus a standard deviation times a normal draw (Philox, Box-Muller; see device/random.hpp); an element of an
/// integer dtype is only the constant. The draw depends only on the seed, `index` and the position of the element in
/// the full tensor, counted through all iterations of a repeat (a loop of the model).
void initialize(tensor_info const& info, int index, std::uint64_t seed, arena& memory, int rank = 0);

/// Resets the states of a parameter that have `state_info::resets_with_parameter`, because they depend on the value
/// that the last update wrote: an average becomes a copy of the parameter, and a rounding error (the state
/// "compensation") becomes 0. Call this function after the host has written the parameter. `parameter`: the parameter's
/// index. `rank`: as in `initialize`.
void reset_states_with_parameter(parameter_list const& list, int parameter, arena& memory, int rank);

/// Writes the initial values of all parameters, optimizer states and settings. Averages become copies of their
/// parameters. `rank`: as in the first overload.
void initialize(parameter_list const& list, std::uint64_t seed, arena& memory, int rank);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/initialize.ipp"
#endif
