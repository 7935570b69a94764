#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/cross_entropy_parts/cpu.hpp"

#include <atomic>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The index of the maximum of `count` values; of equal maxima, the first. NaN counts as smaller than every number.
/// `count` if all values are NaN.
template <class stored> std::int64_t argmax(stored const* x, std::int64_t count) {
  std::int64_t best = count;
  for (std::int64_t i = 0; i < count; ++i)
    if (!detail::is_nan(static_cast<double>(x[i])) && (best == count || x[i] > x[best])) best = i;
  return best;
}

/// The number of rows in which the label is the argmax of the logits; rows with the label `ignored_label` do not count.
/// logits [rows, classes], with `stride` elements from one row to the next, labels [rows].
template <class stored>
std::int64_t count_correct(stored const* logits, std::int64_t stride, std::int32_t const* labels, std::int64_t rows,
                           std::int64_t classes) {
  std::atomic<std::int64_t> count = 0;
  parallel_chunks(rows, 8, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t correct = 0;
    for (std::int64_t row = begin; row < end; ++row)
      correct += labels[row] != ignored_label && argmax(logits + row * stride, classes) == labels[row] ? 1 : 0;
    count.fetch_add(correct, std::memory_order_relaxed);
  });
  return count;
}

template <> struct kernel<op::correct_predictions, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double> correct) {
    auto const count = static_cast<double>(
        count_correct(logits.data, logits.row_stride(), labels.data, labels.count, logits.features()));
    correct[0] = c.add_to(0) ? correct[0] + count : count;
  }
};

template <> struct kernel<op::correct_predictions_parts, cpu> {
  /// The data that each rank sends for each row.
  struct local_maximum {
    double logit;       // the maximum logit of the rank's classes; 0 if `class_index` is -1
    double class_index; // the class of this logit; -1: all the rank's logits in the row are NaN
  };

  template <class stored>
  static void run(call_of<op::correct_predictions_parts> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double> correct, tensor<double> buffer) {
    auto& group = *c.parameters.tensor;
    auto const columns = logits.features(), rows = labels.count;
    class_range const range(group.rank(), columns, c.options.classes);
    auto* const maxima = reinterpret_cast<local_maximum*>(buffer.data);
    auto* const local_maxima = maxima + group.rank() * rows;
    parallel_chunks(rows, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * columns;
        auto const best = argmax(x, range.count);
        local_maxima[row] = best == range.count
                                ? local_maximum{0, -1}
                                : local_maximum{static_cast<double>(x[best]), static_cast<double>(range.first + best)};
      }
    });
    detail::gather_equal_counts(group, local_maxima, rows, maxima);
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      if (labels[row] == ignored_label) continue;
      auto winner = maxima[row];
      for (int rank = 1; rank < group.size(); ++rank)
        if (auto const& candidate = maxima[rank * rows + row];
            candidate.class_index >= 0 && (winner.class_index < 0 || candidate.logit > winner.logit))
          winner = candidate;
      count += winner.class_index == labels[row] ? 1 : 0;
    }
    correct[0] = c.add_to(0) ? correct[0] + static_cast<double>(count) : static_cast<double>(count);
  }
};

} // namespace constrain
