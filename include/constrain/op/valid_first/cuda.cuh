#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/valid_first/valid_first.hpp"

#include <sm_30_intrinsics.h>

namespace constrain::inline CONSTRAIN_VARIANT {

// order = the indices of the rows with a valid label, then of the other rows. Each block counts the valid labels of all
// rows, so that one launch is enough, and then stores the indices of `cuda_threads` rows.
template <class integer>
static __global__ void __launch_bounds__(cuda_threads)
    valid_first_kernel(integer const* labels, std::int64_t rows, integer* order) {
  constexpr int loads_in_flight = 16;
  __shared__ block_reduction<int>::memory shared;
  __shared__ int valid_of_warp[cuda_threads / 32];
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
  unsigned const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto const valid_lanes = __ballot_sync(0xFFFFFFFF, valid);
  if (lane == 0) valid_of_warp[warp] = count_bits(valid_lanes);
  __syncthreads();
  int valid_before = valid_before_block + count_bits(valid_lanes & ((1u << lane) - 1)); // before this row
  for (unsigned w = 0; w < warp; ++w) valid_before += valid_of_warp[w];
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
