#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/valid_first/valid_first.hpp"

#include <cub/block/block_scan.cuh>

namespace constrain::inline CONSTRAIN_VARIANT {

// order = the indices of the rows with a valid label, then of the other rows. Each block places `cuda_threads` rows,
// after it has counted the valid labels of all rows.
template <class integer>
static __global__ void __launch_bounds__(cuda_threads)
    valid_first_kernel(integer const* labels, std::int64_t rows, integer* order) {
  using scan = cub::BlockScan<int, cuda_threads>;
  constexpr int loads_in_flight = 16;
  __shared__ typename scan::TempStorage temporary;
  __shared__ block_reduction<int>::memory shared;
  auto const first = static_cast<std::int64_t>(blockIdx.x) * cuda_threads, row = first + threadIdx.x;
  int valid_before_block = 0, valid_count = 0; // numbers of valid labels: before row `first`, and in all rows
  CT_KEEP_LOOP
  for (auto load_begin = static_cast<std::int64_t>(threadIdx.x); load_begin < rows;
       load_begin += loads_in_flight * cuda_threads) {
    integer loaded[loads_in_flight];
    CT_UNROLL
    for (int k = 0; k < loads_in_flight; ++k)
      loaded[k] = load_begin + k * cuda_threads < rows ? labels[load_begin + k * cuda_threads] : ignored_label;
    CT_UNROLL
    for (int k = 0; k < loads_in_flight; ++k) {
      int const valid = loaded[k] != ignored_label ? 1 : 0;
      valid_count += valid;
      valid_before_block += load_begin + k * cuda_threads < first ? valid : 0;
    }
  }
  valid_before_block = block_reduction<int>{shared}.sum(valid_before_block);
  valid_count = block_reduction<int>{shared}.sum(valid_count);
  bool const valid = row < rows && labels[row] != ignored_label;
  int index = 0, count = 0;
  scan(temporary).ExclusiveSum(valid ? 1 : 0, index, count);
  auto const valid_before = valid_before_block + index; // of this row
  if (row < rows) order[valid ? valid_before : valid_count + row - valid_before] = static_cast<integer>(row);
}

template <class architecture> struct kernel<op::valid_first, cuda<architecture>> {
  static void run(call const& c, tensor<std::int32_t const> labels, tensor<std::int32_t> order) {
    auto const blocks = static_cast<unsigned>((labels.count + cuda_threads - 1) / cuda_threads);
    cuda_launch(*c.parameters.context, dim3(blocks), cuda_threads, valid_first_kernel<std::int32_t>, labels.data,
                labels.count, order.data);
  }
};

} // namespace constrain
