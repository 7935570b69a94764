#pragma once

#include "constrain/train/evaluate_samples.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Fills all rows with the samples `first`, `first` + 1, ... Rows after the last sample are padded or, if padding could
/// change results (not `sample_set::pads`), repeat the sample `repeated`.
CONSTRAIN_INLINE void copy_rows(sample_set const& from, std::int64_t first, std::int64_t rows, std::int64_t repeated,
                                batch_buffer& to) {
  from.view(rows, to);
  for (std::int64_t row = 0; row < rows; ++row)
    if (first + row < from.size()) from.copy(first + row, row, to);
    else if (from.pads()) from.pad(row, to);
    else from.copy(repeated, row, to);
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<evaluation_sums> evaluate_samples(
    sample_set const& samples, std::int64_t rows, function_ref<bool()> stop,
    function_ref<void(batch const&, evaluation_sums&)> run) {
  auto const surplus = (rows - samples.size() % rows) % rows;
  bool const repeats = surplus > 0 && !samples.pads();
  auto repeated = samples.size() - 1;
  while (repeats && repeated > 0 && samples.labels(repeated) == 0) --repeated;
  batch_buffer buffer;
  evaluation_sums sum;
  for (std::int64_t first = 0; first < samples.size(); first += rows) {
    if (stop()) return std::nullopt;
    copy_rows(samples, first, rows, repeated, buffer);
    run(buffer.batch, sum);
  }
  if (!repeats) return sum;
  // The last micro-batch repeated a sample `surplus` times. Evaluate a micro-batch of only that sample, and subtract
  // the share of the surplus rows. For a micro-batch without a valid label, `run` would add nothing, so the repeated
  // sample has a valid label if any sample has one.
  copy_rows(samples, samples.size(), rows, repeated, buffer);
  evaluation_sums repeated_sums;
  run(buffer.batch, repeated_sums);
  auto const share = static_cast<double>(surplus) / static_cast<double>(rows);
  sum.loss -= repeated_sums.loss * share;
  sum.correct -= repeated_sums.correct * share;
  sum.tokens -= repeated_sums.tokens / rows * surplus;
  for (std::size_t i = 0; i < repeated_sums.class_counts.size(); ++i) // empty without a valid label or metrics
    sum.class_counts[i] -= repeated_sums.class_counts[i] / static_cast<double>(rows) * static_cast<double>(surplus);
  return sum;
}

} // namespace constrain::detail
