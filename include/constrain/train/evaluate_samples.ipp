#pragma once

#include "constrain/train/evaluate_samples.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Fills all rows with the samples `first`, `first` + 1, ... Rows after the last sample are padded or, if padding could
/// change results (not `sample_set::pads`), repeat the last sample.
CONSTRAIN_INLINE void copy_rows(sample_set const& from, std::int64_t first, std::int64_t rows, batch_buffer& to) {
  from.view(rows, to);
  auto const last = from.size() - 1;
  for (std::int64_t row = 0; row < rows; ++row)
    if (first + row > last && from.pads()) from.pad(row, to);
    else from.copy(std::min(first + row, last), row, to);
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<evaluation_sums> evaluate_samples(
    sample_set const& samples, std::int64_t rows, function_ref<bool()> stop,
    function_ref<void(batch const&, evaluation_sums&)> run) {
  batch_buffer buffer;
  evaluation_sums sum;
  for (std::int64_t first = 0; first < samples.size(); first += rows) {
    if (stop()) return std::nullopt;
    copy_rows(samples, first, rows, buffer);
    run(buffer.batch, sum);
  }
  auto const surplus = (rows - samples.size() % rows) % rows;
  if (surplus == 0 || samples.pads()) return sum;
  // The last micro-batch repeated the last sample `surplus` times. Evaluate a micro-batch of only that sample, and
  // subtract the share of the surplus rows.
  copy_rows(samples, samples.size() - 1, rows, buffer);
  evaluation_sums last_sums;
  run(buffer.batch, last_sums);
  auto const share = static_cast<double>(surplus) / static_cast<double>(rows);
  sum.loss -= last_sums.loss * share;
  sum.correct -= last_sums.correct * share;
  sum.tokens -= last_sums.tokens / rows * surplus;
  for (std::size_t i = 0; i < last_sums.class_counts.size(); ++i) // empty without a valid label or metrics
    sum.class_counts[i] -= last_sums.class_counts[i] / static_cast<double>(rows) * static_cast<double>(surplus);
  return sum;
}

} // namespace constrain::detail
