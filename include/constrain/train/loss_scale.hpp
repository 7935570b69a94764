#pragma once

#include "constrain/train/named_tensors.hpp"
#include "constrain/train/run_options.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Sets the loss scale of the next step by the rule of `loss_scale_options`, and counts the steps since the last
/// increase or skipped step. `tensors`: the tensors of a trainer with precision::fp16. `skipped`: whether the last step
/// was skipped. Returns the last step's scale.
double adapt_loss_scale(named_tensors const& tensors, loss_scale_options const& o, bool skipped);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/loss_scale.ipp"
#endif
