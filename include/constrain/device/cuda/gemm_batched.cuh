#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cuda/start_kernel.cuh"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr int tile_extent = 64;  // rows and columns of C per block
inline constexpr int tile_depth = 16;   // elements along k that are in shared memory at a time
inline constexpr int thread_extent = 4; // rows and columns of C per thread

/// Each block computes `tile_extent` x `tile_extent` elements of one C; each thread computes `thread_extent` x
/// `thread_extent` of these. `first_c`: index of the C of the blocks with blockIdx.z == 0.
template <class a_type, class b_type, class c_type, class real>
static __global__ void __launch_bounds__(cuda_threads)
    gemm_batched_kernel(std::int64_t m, std::int64_t n, std::int64_t k, real alpha, a_type const* a,
                        matrix_batch a_layout, b_type const* b, matrix_batch b_layout, c_type* c, matrix_batch c_layout,
                        std::int64_t first_c) {
  __shared__ real a_tile[tile_depth][tile_extent + 1];
  __shared__ real b_tile[tile_depth][tile_extent + 1];
  auto const first = (first_c + blockIdx.z) * c_layout.group; // index of the first GEMM for this C
  c += c_layout.begin(first);
  auto const row0 = static_cast<std::int64_t>(blockIdx.y) * tile_extent;
  auto const column0 = static_cast<std::int64_t>(blockIdx.x) * tile_extent;
  int const thread_column = static_cast<int>(threadIdx.x) % (tile_extent / thread_extent);
  int const thread_row = static_cast<int>(threadIdx.x) / (tile_extent / thread_extent);
  real sum[thread_extent][thread_extent]{};
  for (auto matrix = first; matrix < first + c_layout.group; ++matrix) {
    a_type const* a_matrix = a + a_layout.begin(matrix);
    b_type const* b_matrix = b + b_layout.begin(matrix);
    for (std::int64_t k0 = 0; k0 < k; k0 += tile_depth) {
      for (int i = static_cast<int>(threadIdx.x); i < tile_extent * tile_depth; i += cuda_threads) {
        int const depth = i % tile_depth, offset = i / tile_depth;
        bool const in_k = k0 + depth < k;
        a_tile[depth][offset] =
            in_k && row0 + offset < m ? real(a_matrix[a_layout.at(row0 + offset, k0 + depth)]) : real(0);
        b_tile[depth][offset] =
            in_k && column0 + offset < n ? real(b_matrix[b_layout.at(k0 + depth, column0 + offset)]) : real(0);
      }
      __syncthreads();
      for (int depth = 0; depth < tile_depth; ++depth)
        for (int i = 0; i < thread_extent; ++i)
          for (int j = 0; j < thread_extent; ++j)
            sum[i][j] += a_tile[depth][thread_row + i * (tile_extent / thread_extent)] *
                         b_tile[depth][thread_column + j * (tile_extent / thread_extent)];
      __syncthreads();
    }
  }
  for (int i = 0; i < thread_extent; ++i)
    for (int j = 0; j < thread_extent; ++j) {
      auto const row = row0 + thread_row + i * (tile_extent / thread_extent);
      auto const column = column0 + thread_column + j * (tile_extent / thread_extent);
      if (row < m && column < n) c[c_layout.at(row, column)] = alpha * sum[i][j];
    }
}

} // namespace detail

/// Maximum number of matrices C per launch: the maximum extent of a grid along z.
inline constexpr std::int64_t max_matrices_per_launch = 65535;

/// The number of launches of `gemm_batched` for `matrices` matrices C, with at most `max_matrices` per launch.
constexpr int launches_of_gemm_batched(std::int64_t matrices, std::int64_t max_matrices = max_matrices_per_launch) {
  return static_cast<int>((matrices + max_matrices - 1) / max_matrices);
}

/// Computes `batches` GEMMs C = alpha A B on matrices inside larger tensors: A [m, k], B [k, n], C [m, n], of any
/// floating-point types. m and n must be at least 1, and m at most 65535 x 64, the limit of a grid along y. `a_layout`,
/// `b_layout`, `c_layout`: layouts of the matrices in the tensors (tiles.hpp). GEMMs that share one C
/// (`c_layout.group`, which must divide `batches`) are summed in order. Sums are accumulated in `arithmetic<c_type>`.
/// This function is for cases that cuBLASLt does not support: A and B of different types, and batches with two strides.
/// `max_matrices`: maximum number of matrices C per launch; only tests pass it. Throws `error` if a launch fails.
template <class a_type, class b_type, class c_type>
void gemm_batched(cuda_context& context, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
                  arithmetic<c_type> alpha, a_type const* a, matrix_batch a_layout, b_type const* b,
                  matrix_batch b_layout, c_type* c, matrix_batch c_layout,
                  std::int64_t max_matrices = max_matrices_per_launch) {
  using real = arithmetic<c_type>;
  auto const tiles = [](std::int64_t extent) {
    return static_cast<unsigned>((extent + detail::tile_extent - 1) / detail::tile_extent);
  };
  auto const matrices = batches / c_layout.group;
  for (std::int64_t first = 0; first < matrices; first += max_matrices)
    cuda_launch(context, dim3(tiles(n), tiles(m), static_cast<unsigned>(std::min(max_matrices, matrices - first))),
                cuda_threads, detail::gemm_batched_kernel<a_type, b_type, c_type, real>, m, n, k, alpha, a, a_layout, b,
                b_layout, c, c_layout, first);
}

} // namespace constrain
