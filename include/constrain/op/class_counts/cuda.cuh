#pragma once

#include "constrain/op/accuracy/cuda.cuh"
#include "constrain/op/class_counts/class_counts.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// predictions[row] = the argmax of the row's logits (block_argmax), or -1 if the row's label is ignored; one block per
// row.
template <int n, class stored>
static __global__ void __launch_bounds__(cuda_threads)
    predictions_kernel(loss_rows<n, stored> rows, std::int32_t* predictions) {
  int const argmax = block_argmax(rows);
  if (threadIdx.x == 0) predictions[blockIdx.x] = rows.label() == ignored_label ? -1 : argmax;
}

// Computes the three counts of op::class_counts for one class per block. If `adds`, they are added to the elements of
// `counts`; otherwise, they overwrite these elements.
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    class_counts_kernel(std::int32_t const* predictions, std::int32_t const* labels, std::int64_t rows,
                        std::int64_t classes, bool adds, stored* counts) {
  __shared__ typename block_reduction<int>::memory shared;
  auto const class_index = static_cast<int>(blockIdx.x);
  int correct = 0, predicted = 0, labelled = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += cuda_threads) {
    bool const is_predicted = predictions[i] == class_index, is_label = labels[i] == class_index;
    correct += is_predicted && is_label ? 1 : 0, predicted += is_predicted ? 1 : 0, labelled += is_label ? 1 : 0;
  }
  correct = block_reduction<int>{shared}.sum(correct);
  predicted = block_reduction<int>{shared}.sum(predicted);
  labelled = block_reduction<int>{shared}.sum(labelled);
  if (threadIdx.x > 0) return;
  counts[class_index] = static_cast<stored>(correct) + (adds ? counts[class_index] : stored(0));
  counts[classes + class_index] = static_cast<stored>(predicted) + (adds ? counts[classes + class_index] : stored(0));
  counts[2 * classes + class_index] =
      static_cast<stored>(labelled) + (adds ? counts[2 * classes + class_index] : stored(0));
}

template <class architecture> struct kernel<op::class_counts, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 2}; }
  template <class stored>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels, tensor<double> counts,
                  tensor<std::int32_t> predictions) {
    auto& context = *c.parameters.context;
    auto const classes = logits.features();
    with_loss_rows(logits, labels, {}, true, [&]<int n>(loss_rows<n, stored> const& rows) {
      cuda_launch(context, dim3(static_cast<unsigned>(labels.count)), cuda_threads, predictions_kernel<n, stored>, rows,
                  predictions.data);
    });
    cuda_launch(context, dim3(static_cast<unsigned>(classes)), cuda_threads, class_counts_kernel<double>,
                predictions.data, labels.data, labels.count, classes, c.add_to(0), counts.data);
  }
};

} // namespace constrain
