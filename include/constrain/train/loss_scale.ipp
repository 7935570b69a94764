#pragma once

#include "constrain/train/loss_scale.hpp"

#include "constrain/program/setting.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE double adapt_loss_scale(named_tensors const& tensors, loss_scale_options const& o,
                                                       bool skipped) {
  auto const scale = tensors.setting(loss_scale_setting.name),
             steps = tensors.setting(loss_scale_steps_setting.name) + 1;
  bool const grows = !skipped && steps >= static_cast<double>(o.interval);
  auto const multiply = [&](double factor) {
    tensors.set_unchecked(loss_scale_setting.name, std::clamp(scale * factor, smallest_loss_scale, largest_loss_scale));
  };
  if (skipped) multiply(o.backoff);
  if (grows) multiply(o.growth);
  tensors.set_unchecked(loss_scale_steps_setting.name, skipped || grows ? 0 : steps);
  return scale;
}

} // namespace constrain::detail
