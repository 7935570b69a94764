#pragma once

#include "constrain/train/checks.hpp"

#include "constrain/program/setting.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void check_run(run_options const& o) {
  check_number("run_options", ".clip_norm", o.clip_norm, clip_norm_setting.range);
  auto const& scale = o.loss_scale;
  check_number("run_options", ".loss_scale.initial", scale.initial, number_range::loss_scale);
  check_number("run_options", ".loss_scale.growth", scale.growth, number_range::above_zero);
  check_number("run_options", ".loss_scale.backoff", scale.backoff, number_range::above_zero);
  check_count("run_options", ".loss_scale.interval", scale.interval, 1);
  check_number("run_options", ".dropout", o.dropout, dropout_setting.range);
  o.schedule.check();
}

} // namespace constrain::detail
