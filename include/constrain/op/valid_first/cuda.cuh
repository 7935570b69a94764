#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/valid_first/valid_first.hpp"
#include "cub/block/block_scan.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

// order = the indices of the rows with a valid label, then of the other rows. Runs in one block.
template <class integer>
static __global__ void __launch_bounds__(cuda_threads)
    valid_first_kernel(integer const* labels, std::int64_t rows, integer* order) {
  using scan = cub::BlockScan<int, cuda_threads>;
  __shared__ typename scan::TempStorage temporary;
  for (int valid = 1; valid >= 0; --valid)
    for (std::int64_t from = 0; from < rows; from += cuda_threads) {
      auto const row = from + threadIdx.x;
      int const is_taken = row < rows && (labels[row] != ignored_label) == (valid != 0) ? 1 : 0;
      int index = 0, count = 0;
      scan(temporary).ExclusiveSum(is_taken, index, count);
      if (is_taken != 0) order[index] = static_cast<integer>(row);
      order += count;
      __syncthreads();
    }
}

template <class architecture> struct kernel<op::valid_first, cuda<architecture>> {
  static void run(call const& c, tensor<std::int32_t const> labels, tensor<std::int32_t> order) {
    cuda_launch(*c.parameters.context, dim3(1), cuda_threads, valid_first_kernel<std::int32_t>, labels.data,
                labels.count, order.data);
  }
};

} // namespace constrain
