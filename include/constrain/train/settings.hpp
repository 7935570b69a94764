#pragma once

#include "constrain/train/named_tensors.hpp"
#include "constrain/train/run_options.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Gives the library's settings their first values, from the run options.
void start_settings(named_tensors const& all, run_options const& run);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/settings.ipp"
#endif
