#pragma once

#include "constrain/train/settings.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/program/setting.hpp"

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void check_settings(parameter_list const& list, run_options const& run) {
  if (run.dropout != 0 && !list.has_setting(dropout_setting.name))
    throw error({"run_options: .dropout is ", number_text(run.dropout),
                 ", but the model has no ct::dropout; add it to the model, or leave .dropout at 0"});
}

[[gnu::cold]] CONSTRAIN_INLINE void start_settings(named_tensors const& tensors, run_options const& run) {
  std::pair<std::string_view, double> const initial_values[] = {{dropout_setting.name, run.dropout},
                                                                {clip_norm_setting.name, run.clip_norm},
                                                                {loss_scale_setting.name, run.loss_scale.initial}};
  for (auto const& [name, x] : initial_values)
    if (tensors.has_setting(name)) tensors.set_unchecked(name, x);
}

} // namespace constrain::detail
