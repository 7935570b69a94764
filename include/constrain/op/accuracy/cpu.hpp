#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The number of rows in which the label is the argmax of the logits; rows with the label `ignored_label` do not count.
/// logits [rows, classes], labels [rows].
template <class stored>
std::int64_t count_correct(stored const* logits, std::int32_t const* labels, std::int64_t rows, std::int64_t classes) {
  std::int64_t count = 0;
  CONSTRAIN_OMP(parallel for reduction(+ : count) schedule(static))
  for (std::int64_t row = 0; row < rows; ++row) {
    if (labels[row] == ignored_label) continue;
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < classes; ++i)
      if (logits[row * classes + i] > logits[row * classes + best]) best = i;
    count += best == labels[row] ? 1 : 0;
  }
  return count;
}

template <> struct kernel<op::correct_predictions, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double> correct) {
    auto const count = static_cast<double>(count_correct(logits.data, labels.data, labels.count, logits.features()));
    correct[0] = c.add_to(0) ? correct[0] + count : count;
  }
};

} // namespace constrain
