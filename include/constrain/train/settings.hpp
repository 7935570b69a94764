#pragma once

#include "constrain/train/named_tensors.hpp"
#include "constrain/train/run_options.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error` if `.dropout` is not 0 and the model does not call ct::dropout. `list`: the table of the trainer or
/// the inference object.
void check_settings(parameter_list const& list, run_options const& run);

/// Sets the settings `dropout`, `clip_norm` and `loss_scale` to their initial values, which the run options specify.
/// Skips settings that the program does not have.
void start_settings(named_tensors const& tensors, run_options const& run);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/settings.ipp"
#endif
