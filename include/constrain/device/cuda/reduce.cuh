#pragma once

#include "constrain/device/cuda/start_kernel.cuh"

#include <cub/block/block_reduce.cuh>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The maximum of two values, for `block_reduction`.
struct larger_of {
  template <class real> CT_HOST_DEVICE real operator()(real a, real b) const { return a > b ? a : b; }
};

/// Reduces one value per thread of a block; every thread gets the result. All threads of the block must take part. The
/// order of the reduction is fixed.
template <class real> struct block_reduction {
  using reduce = cub::BlockReduce<real, cuda_threads>;
  /// Shared memory of a block for one reduction.
  struct memory {
    typename reduce::TempStorage temporary;
    real result;
  };
  memory& shared;

  /// The sum of `x` over all threads of the block.
  __device__ real sum(real x) { return broadcast(reduce(shared.temporary).Sum(x)); }
  /// The maximum of `x` over all threads of the block.
  __device__ real max(real x) { return broadcast(reduce(shared.temporary).Reduce(x, larger_of{})); }

private:
  __device__ real broadcast(real x) {
    if (threadIdx.x == 0) shared.result = x;
    __syncthreads();
    real const all = shared.result;
    __syncthreads();
    return all;
  }
};

/// Splits the rows of x [rows, columns] into `parts` parts and sums each column over each part: partial [parts,
/// columns].
template <class stored, class real>
static __global__ void __launch_bounds__(cuda_threads)
    column_sums_kernel(stored const* x, std::int64_t rows, std::int64_t columns, std::int64_t parts, real* partial) {
  auto const column = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x;
  auto const part = static_cast<std::int64_t>(blockIdx.y);
  if (column >= columns) return;
  real sum = 0;
  for (auto row = part_begin(rows, parts, part); row < part_begin(rows, parts, part + 1); ++row)
    sum += x[row * columns + column];
  partial[part * columns + column] = sum;
}

/// to[i] = sum over parts, in order, of partial[part * stride + i]; if `add`, the sum is added to to[i].
template <class real> struct sum_of_parts {
  real const* partial;
  std::int64_t parts, stride;
  real* to;
  bool add;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    real sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * stride + i];
    to[i] = add ? to[i] + sum : sum;
  }
};

/// The needs of a call to `sum_rows` for an array [rows, columns] and sums of type `sums`.
constexpr kernel_needs needs_of_sum_rows(std::int64_t rows, std::int64_t columns, dtype sums) {
  return {.scratch = row_parts(rows) * columns * size_of(sums), .launches = 2};
}

/// y[i] = sum over rows of x[row, i], x [rows, columns] row-major; if `add`, the sum is added to y[i]. The rows are
/// summed in parts that depend only on the shape, so the result is reproducible. The call must have the scratch memory
/// that `needs_of_sum_rows` returns.
template <class architecture, class stored, class real>
void sum_rows(cuda<architecture> device, call const& c, stored const* x, std::int64_t rows, std::int64_t columns,
              real* y, bool add) {
  auto const parts = row_parts(rows);
  auto* const partial = c.scratch_as<real>();
  dim3 const blocks(static_cast<unsigned>((columns + cuda_threads - 1) / cuda_threads), static_cast<unsigned>(parts));
  cuda_launch(*c.parameters.context, blocks, cuda_threads, column_sums_kernel<stored, real>, x, rows, columns, parts,
              partial);
  for_elements(device, c, columns, sum_of_parts<real>{partial, parts, columns, y, add});
}

} // namespace constrain
