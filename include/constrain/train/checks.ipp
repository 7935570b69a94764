#pragma once

#include "constrain/train/checks.hpp"

#include "constrain/program/setting.hpp"

#include <variant>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error` for a negative `.warmup`, `.steps` below 1, or a `.minimum` that is negative or not finite.
[[gnu::cold]] CONSTRAIN_INLINE void check_schedule(schedule::any const& s) {
  constexpr char const* owners[] = {"schedule::constant", "schedule::linear", "schedule::cosine"};
  auto const* const owner = owners[s.index()];
  schedule::detail::visit(s, [&](auto const& chosen) {
    check_count(owner, ".warmup", chosen.warmup.count(), 0);
    if constexpr (requires { chosen.minimum; }) {
      check_count(owner, ".steps", chosen.steps.count(), 1);
      check_number(owner, ".minimum", chosen.minimum, number_range::from_zero);
    }
  });
}

[[gnu::cold]] CONSTRAIN_INLINE void check_run(run_options const& o) {
  check_number("run_options", ".clip_norm", o.clip_norm, clip_norm_setting.range);
  auto const& scale = o.loss_scale;
  check_number("run_options", ".loss_scale.initial", scale.initial, number_range::loss_scale);
  check_number("run_options", ".loss_scale.growth", scale.growth, number_range::above_zero);
  check_number("run_options", ".loss_scale.backoff", scale.backoff, number_range::above_zero);
  check_count("run_options", ".loss_scale.interval", scale.interval, 1);
  check_number("run_options", ".dropout", o.dropout, dropout_setting.range);
  check_schedule(o.schedule);
}

} // namespace constrain::detail
