#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cuda/start_kernel.cuh"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr int tile = 64;       // rows and columns of C per block
inline constexpr int tile_depth = 16; // elements along k that are in shared memory at a time
inline constexpr int tile_each = 4;   // rows and columns of C per thread

/// Each block computes `tile` x `tile` elements of one C; each thread computes `tile_each` x `tile_each` of these.
/// `first_c`: index of the C of the blocks with blockIdx.z == 0.
template <class a_type, class b_type, class c_type, class real>
static __global__ void __launch_bounds__(cuda_threads)
    gemm_batched_kernel(std::int64_t m, std::int64_t n, std::int64_t k, real alpha, a_type const* a, matrix_batch a_at,
                        b_type const* b, matrix_batch b_at, c_type* c, matrix_batch c_at, std::int64_t first_c) {
  __shared__ real a_tile[tile_depth][tile + 1];
  __shared__ real b_tile[tile_depth][tile + 1];
  auto const first = (first_c + blockIdx.z) * c_at.group; // index of the first GEMM for this C
  c += c_at.begin(first);
  auto const row0 = static_cast<std::int64_t>(blockIdx.y) * tile;
  auto const column0 = static_cast<std::int64_t>(blockIdx.x) * tile;
  int const across = static_cast<int>(threadIdx.x) % (tile / tile_each);
  int const down = static_cast<int>(threadIdx.x) / (tile / tile_each);
  real sum[tile_each][tile_each]{};
  for (auto matrix = first; matrix < first + c_at.group; ++matrix) {
    a_type const* a_matrix = a + a_at.begin(matrix);
    b_type const* b_matrix = b + b_at.begin(matrix);
    for (std::int64_t from = 0; from < k; from += tile_depth) {
      for (int i = static_cast<int>(threadIdx.x); i < tile * tile_depth; i += cuda_threads) {
        int const depth = i % tile_depth, line = i / tile_depth;
        bool const in_k = from + depth < k;
        a_tile[depth][line] = in_k && row0 + line < m ? real(a_matrix[a_at.at(row0 + line, from + depth)]) : real(0);
        b_tile[depth][line] =
            in_k && column0 + line < n ? real(b_matrix[b_at.at(from + depth, column0 + line)]) : real(0);
      }
      __syncthreads();
      for (int depth = 0; depth < tile_depth; ++depth)
        for (int i = 0; i < tile_each; ++i)
          for (int j = 0; j < tile_each; ++j)
            sum[i][j] += a_tile[depth][down + i * (tile / tile_each)] * b_tile[depth][across + j * (tile / tile_each)];
      __syncthreads();
    }
  }
  for (int i = 0; i < tile_each; ++i)
    for (int j = 0; j < tile_each; ++j) {
      auto const row = row0 + down + i * (tile / tile_each);
      auto const column = column0 + across + j * (tile / tile_each);
      if (row < m && column < n) c[c_at.at(row, column)] = alpha * sum[i][j];
    }
}

} // namespace detail

/// Maximum number of matrices C per launch: the maximum extent of a grid along z.
inline constexpr std::int64_t matrices_of_launch = 65535;

/// The number of launches of `gemm_batched` for `matrices` matrices C, with at most `most` per launch.
constexpr int launches_of_gemm_batched(std::int64_t matrices, std::int64_t most = matrices_of_launch) {
  return static_cast<int>((matrices + most - 1) / most);
}

/// Computes `batches` GEMMs C = alpha A B on matrices inside larger tensors: A [m, k], B [k, n], C [m, n], of any
/// floating-point types. m and n must be at least 1. `a_at`, `b_at`, `c_at`: layouts of the matrices in the tensors
/// (tiles.hpp). GEMMs that share one C (`c_at.group`, which must divide `batches`) are summed in order. This function
/// is for cases that cuBLASLt does not support: A and B of different types, and batches with two strides. `most`:
/// maximum number of matrices C per launch; only tests pass it. Throws `error` if a launch fails.
template <class a_type, class b_type, class c_type>
void gemm_batched(cuda_context& context, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
                  arithmetic<c_type> alpha, a_type const* a, matrix_batch a_at, b_type const* b, matrix_batch b_at,
                  c_type* c, matrix_batch c_at, std::int64_t most = matrices_of_launch) {
  using real = arithmetic<c_type>;
  auto const tiles = [](std::int64_t extent) {
    return static_cast<unsigned>((extent + detail::tile - 1) / detail::tile);
  };
  auto const matrices = batches / c_at.group;
  for (std::int64_t first = 0; first < matrices; first += most)
    cuda_launch(context, dim3(tiles(n), tiles(m), static_cast<unsigned>(std::min(most, matrices - first))),
                cuda_threads, detail::gemm_batched_kernel<a_type, b_type, c_type, real>, m, n, k, alpha, a, a_at, b,
                b_at, c, c_at, first);
}

} // namespace constrain
