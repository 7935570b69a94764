#pragma once

#include "constrain/train/loss_scale.hpp"

#include <algorithm>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

CONSTRAIN_INLINE void start_loss_scale(named_tensors const& all, loss_scale_options const& o) {
  all.put(loss_scale_name, o.initial);
}

CONSTRAIN_INLINE void adapt_loss_scale(named_tensors const& all, loss_scale_options const& o, bool skipped) {
  auto const scale = all.setting(loss_scale_name), steps = all.setting(loss_scale_steps_name) + 1;
  bool const grows = !skipped && steps >= static_cast<double>(o.interval);
  // A scale of 0 would never grow again.
  if (skipped) all.put(loss_scale_name, std::max(scale * o.backoff, std::numeric_limits<double>::min()));
  if (grows) all.put(loss_scale_name, scale * o.growth);
  all.put(loss_scale_steps_name, skipped || grows ? 0 : steps);
}

} // namespace constrain::detail
