#pragma once

#include "constrain/train/checks.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/program/setting.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void check_run(run_options const& o, bool on_cuda) {
  check_number("run_options", ".clip_norm", o.clip_norm, clip_norm_setting.range);
  auto const& scale = o.loss_scale;
  check_number("run_options", ".loss_scale.initial", scale.initial, number_range::loss_scale);
  check_number("run_options", ".loss_scale.growth", scale.growth, number_range::above_one);
  check_number("run_options", ".loss_scale.backoff", scale.backoff, number_range::above_zero_below_one);
  check_count("run_options", ".loss_scale.interval", scale.interval, 1);
  if (!is_deadline(o.deadline))
    refuse_number("run_options", ".deadline", number_text(o.deadline) + " seconds", "more than 0 and at most 1e9");
  if (o.reduce != reduce::ordered && o.reduce != reduce::fast)
    refuse_number("run_options", ".reduce", concat({static_cast<int>(o.reduce)}), "reduce::ordered or reduce::fast");
  check_count("run_options", ".cuda_device", o.cuda_device, -1);
  if (o.cuda_stream != nullptr && !on_cuda)
    throw error(
        "run_options: .cuda_stream is set, but the device is the CPU, which has no streams; leave it null, or write "
        "device::cuda");
  check_number("run_options", ".dropout", o.dropout, dropout_setting.range);
  o.schedule.check();
}

[[gnu::cold]] CONSTRAIN_INLINE void check_no_clipping(run_options const& o) {
  if (o.clip_norm != 0)
    throw error(
        {"run_options: .clip_norm is ", number_text(o.clip_norm),
         ", but optimizer::in_backward updates parameters before the norm of all gradients is known; set .clip_norm "
         "to 0, or train without in_backward"});
}

} // namespace constrain::detail
