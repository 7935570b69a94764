#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/accuracy/cpu.hpp"
#include "constrain/op/class_counts/class_counts.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::class_counts, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels, tensor<double> counts,
                  tensor<std::int32_t> predictions) {
    auto const classes = logits.features(), rows = labels.count, stride = logits.row_stride();
    auto* const predicted = predictions.data;
    parallel_for(rows, [=](std::int64_t row) {
      predicted[row] =
          labels[row] == ignored_label ? -1 : static_cast<std::int32_t>(argmax(logits.data + row * stride, classes));
    });
    if (!c.add_to(0)) std::fill_n(counts.data, 3 * classes, 0.0);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (predicted[row] < 0) continue;
      auto const label = labels[row];
      if (predicted[row] == label) ++counts.data[label];
      if (predicted[row] < classes) ++counts.data[classes + predicted[row]];
      ++counts.data[2 * classes + label];
    }
  }
};

} // namespace constrain
