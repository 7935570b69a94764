#pragma once

#include "constrain/train/settings.hpp"

#include "constrain/program/setting.hpp"

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void start_settings(named_tensors const& all, run_options const& run) {
  std::pair<std::string_view, double> const first[] = {{dropout_setting.name, run.dropout},
                                                       {clip_norm_setting.name, run.clip_norm},
                                                       {loss_scale_setting.name, run.loss_scale.initial}};
  for (auto const& [name, x] : first)
    if (all.has_setting(name)) all.put(name, x);
}

} // namespace constrain::detail
