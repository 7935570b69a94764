#pragma once

#include "constrain/device/cuda/packs.cuh"
#include "constrain/device/cuda/start_kernel.cuh"

#include <cub/block/block_reduce.cuh>
#include <sm_30_intrinsics.h>

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

/// The sum of one value per lane, in a fixed order; every lane gets the result. All lanes of a warp must take part.
template <class real> __device__ real warp_sum(real x) {
  CT_UNROLL
  for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, other);
  return x;
}

namespace detail {

/// f.started(), or f if it has no such member.
template <class function> __device__ auto started(function const& f) {
  if constexpr (requires { f.started(); }) return f.started();
  else return f;
}

} // namespace detail

/// Splits the rows of a matrix [rows, columns] into `parts` parts and sums each column over each part: partial [parts,
/// columns]. `f(i, values)` gets the index of the first of n consecutive elements and sets their values; the matrix
/// need not be in memory. If `f` has a member function `started`, each thread calls the function that it returns. A block sums 32 n columns; its warps take the rows of a part in turn.
template <int n, class real, class function>
static __global__ void __launch_bounds__(cuda_threads)
    column_sums_kernel(function f, std::int64_t rows, std::int64_t columns, std::int64_t parts, real* partial) {
  constexpr int warps = cuda_threads / 32;
  __shared__ real of_warp[warps][32][n];
  int const lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  auto const column = (static_cast<std::int64_t>(blockIdx.x) * 32 + lane) * n;
  auto const part = static_cast<std::int64_t>(blockIdx.y);
  real sums[n]{}, values[n];
  auto const values_of = detail::started(f);
  auto const end = part_begin(rows, parts, part + 1);
  for (auto row = part_begin(rows, parts, part) + warp; column < columns && row < end; row += warps) {
    values_of(row * columns + column, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) sums[j] += values[j];
  }
  CT_UNROLL
  for (int j = 0; j < n; ++j) of_warp[warp][lane][j] = sums[j];
  __syncthreads();
  auto const first = static_cast<std::int64_t>(blockIdx.x) * 32 * n;
  for (int i = static_cast<int>(threadIdx.x); i < 32 * n && first + i < columns; i += cuda_threads) {
    real sum = 0;
    for (int from = 0; from < warps; ++from) sum += of_warp[from][i / n][i % n];
    partial[part * columns + first + i] = sum;
  }
}

/// The values of n consecutive elements of an array, for `sum_columns`.
template <int n, class stored, class real> struct elements_of_array {
  stored const* x;
  __device__ void operator()(std::int64_t i, real (&values)[n]) const { load_pack(x + i, values); }
};

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

/// The needs of a call to `sum_columns`, for a matrix [rows, columns] and sums of type `sums`.
constexpr kernel_needs needs_of_sum_columns(std::int64_t rows, std::int64_t columns, dtype sums) {
  return {.scratch = row_parts(rows) * columns * size_of(sums), .launches = 2};
}

/// y[i] = sum over rows of column i of a matrix [rows, columns], whose elements `f` computes (column_sums_kernel), n at
/// a time; n must divide the columns. If `add`, the sum is added to y[i]. The rows are summed in parts that depend only
/// on the shape, so the result is reproducible. The call must have the scratch memory that `needs_of_sum_columns`
/// returns.
template <int n, class architecture, class function, class real>
void sum_columns(cuda<architecture> device, call const& c, function const& f, std::int64_t rows, std::int64_t columns,
                 real* y, bool add) {
  auto const parts = row_parts(rows);
  auto* const partial = c.scratch_as<real>();
  dim3 const blocks(static_cast<unsigned>((columns + 32 * n - 1) / (32 * n)), static_cast<unsigned>(parts));
  cuda_launch(*c.parameters.context, blocks, cuda_threads, column_sums_kernel<n, real, function>, f, rows, columns,
              parts, partial);
  for_elements(device, c, columns, sum_of_parts<real>{partial, parts, columns, y, add});
}

} // namespace constrain
