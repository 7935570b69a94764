#pragma once

#include "constrain/train/named_tensors.hpp"
#include "constrain/train/run_options.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Sets the initial values of the library's settings from the run options.
void start_settings(named_tensors const& all, run_options const& run);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/settings.ipp"
#endif
