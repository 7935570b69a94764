#pragma once

#include "constrain/train/saved/tensor_files.hpp"

#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The parameter called `name`, for `trainer::gradient`. Throws `error` for an unknown or frozen parameter, and unless
/// the gradients of the last step are in the arena (`kept`).
parameter_info const& find_gradient(parameter_list const& list, std::string const& name, bool kept);

/// The optimizer state `name` of a parameter, for `trainer::state`. Throws `error` if there is none.
state_info const& find_state(parameter_list const& list, std::string_view parameter, std::string_view name);

/// Name of trainable parameter number `gradient`, counted from 0 without frozen parameters; empty if there are fewer.
std::string_view name_of_gradient(parameter_list const& list, int gradient);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/gradients.ipp"
#endif
