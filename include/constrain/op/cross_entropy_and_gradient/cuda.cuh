#pragma once

#include "constrain/op/cross_entropy/cuda.cuh"
#include "constrain/op/cross_entropy_and_gradient/cross_entropy_and_gradient.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The maximum number of threads per row. The kernel reads each row twice. The rows that a device works on at the same
/// time should stay in its L2 cache until the second pass, so few rows with many threads each are better than many rows
/// with few threads. In fp64, the exponentials need many registers, so a block has fewer threads.
template <class stored> inline constexpr int loss_threads = sizeof(stored) < 8 ? 768 : cuda_threads;

} // namespace detail

// Computes the loss of each row and dlogits, which may overwrite the logits. In the second pass over a row, a block
// usually finds the row in a cache.
template <int n, class stored>
static __global__ void __launch_bounds__(detail::loss_threads<stored>, 2)
    cross_entropy_and_gradient_kernel(loss_rows<n, stored> rows, double const* dloss, double const* inverse_count,
                                      stored* dlogits, std::int64_t stride, double* row_loss) {
  __shared__ typename block_reduction<arithmetic<stored>>::memory shared;
  auto const row = detail::statistics_of_row(rows, shared);
  if (threadIdx.x == 0) row_loss[blockIdx.x] = detail::loss_of_row(rows, row);
  detail::write_gradient_of_row(rows, row.log_sum_exp, *dloss * *inverse_count,
                                dlogits + static_cast<std::int64_t>(blockIdx.x) * stride);
}

template <class architecture> struct kernel<op::cross_entropy_and_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 2}; }
  template <class stored>
  static void run(call_of<op::cross_entropy_and_gradient> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double const> dloss,
                  tensor<stored> dlogits, tensor<double> loss, tensor<double> row_loss) {
    auto& context = *c.parameters.context;
    auto const launch = [&]<int n>(loss_rows<n, stored> const& rows) {
      // A row of at most two packs for each of `cuda_threads` threads has too little work for more threads.
      int const threads = rows.classes > 2 * n * cuda_threads ? detail::loss_threads<stored> : cuda_threads;
      cuda_launch(context, dim3(static_cast<unsigned>(labels.count)), threads,
                  cross_entropy_and_gradient_kernel<n, stored>, rows, dloss.data, inverse_count.data, dlogits.data,
                  dlogits.row_stride(), row_loss.data);
    };
    with_gradient_rows(logits, labels, c.options, dlogits, launch);
    cuda_launch(context, dim3(1), cuda_threads, sum_loss_kernel<double>, row_loss.data, labels.count,
                inverse_count.data, loss.data, c.add_to(1));
  }
};

} // namespace constrain
