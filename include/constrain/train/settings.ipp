#pragma once

#include "constrain/train/settings.hpp"

#include "constrain/program/setting.hpp"

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void start_settings(named_tensors const& all, run_options const& run) {
  std::pair<library_setting, double> const first[] = {
      {dropout_setting, run.dropout}, {clip_norm_setting, run.clip_norm}, {loss_scale_setting, run.loss_scale.initial}};
  for (auto const& [which, x] : first)
    if (all.has_setting(which.name)) all.put(which.name, x);
}

} // namespace constrain::detail
