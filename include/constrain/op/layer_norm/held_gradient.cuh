#pragma once

#include "constrain/device/cuda/held_row.cuh"
#include "constrain/device/cuda/reduce.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr int norm_warps = cuda_threads / 32; // warps of a block

/// The arrays of layer_norm_gradient: dresidual, dy, x and dx [rows, width], weight [width], mean and rstd [rows].
/// Without a residual, `dresidual` is null.
template <class stored, class accumulate> struct layer_norm_gradient_arrays {
  stored const *dresidual, *dy, *x;
  accumulate const *weight, *mean, *rstd;
  stored* dx;
  accumulate *dweight, *dbias; // [blocks, width]: the sums over the rows of each block
};

/// A lane's sums over rows, for the columns of a `held_row` that the lane holds: sums[k][j] is the sum of column
/// held_row::column(k) + j.
template <int n, int packs_per_lane, class accumulate> struct held_sums {
  /// The sums of every warp of a block, in shared memory.
  struct memory {
    lane_columns<n, accumulate> of_warp[norm_warps][packs_per_lane];
  };
  accumulate sums[packs_per_lane][n];

  /// to [width] = the sums over all warps of the block, added in the order of the warps. All threads of the block must
  /// call this function. `shared` may be used again after the call.
  __device__ void add_up(memory& shared, int width, accumulate* to) const {
    int const lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    CT_UNROLL
    for (int k = 0; k < packs_per_lane; ++k) {
      CT_UNROLL
      for (int j = 0; j < n; ++j) shared.of_warp[warp][k].of_lane(lane, j) = sums[k][j];
    }
    __syncthreads();
    CT_KEEP_LOOP
    for (int i = static_cast<int>(threadIdx.x); i < width; i += cuda_threads) {
      accumulate sum = 0;
      CT_UNROLL
      for (int source_warp = 0; source_warp < norm_warps; ++source_warp)
        sum += shared.of_warp[source_warp][i / (32 * n)].of_column(i % (32 * n));
      to[i] = sum;
    }
    __syncthreads();
  }
};

/// The minimum number of blocks per multiprocessor, for __launch_bounds__: 2 for 16-bit types and at most 24 elements,
/// otherwise 1. `elements`: elements of a row per lane. With 2 blocks, a thread has 128 registers. In 16-bit types, 24
/// elements each of dy, x and dresidual take 36 registers, and the fp32 sums of dweight and dbias for 24 columns take
/// 48, together 84; with 32 elements, they take 112.
template <class stored> constexpr int held_gradient_blocks(int elements) {
  return sizeof(stored) < 4 && elements <= 24 ? 2 : 1;
}

} // namespace detail

// Like layer_norm_gradient_kernel, but for rows that fit into the registers of a warp, `packs_per_lane` packs of n
// elements per lane: a warp reads each of its rows once, and each lane adds up its columns of dweight and dbias in
// registers. `width`: a multiple of n, at most 32 n `packs_per_lane`. dx may overwrite dy or dresidual.
template <int n, int packs_per_lane, bool adds, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads, detail::held_gradient_blocks<stored>(packs_per_lane* n))
    held_layer_norm_gradient_kernel(detail::layer_norm_gradient_arrays<stored, accumulate> arrays, row_partition rows,
                                    int width) {
  using held_sums = detail::held_sums<n, packs_per_lane, accumulate>;
  __shared__ typename held_sums::memory shared;
  held_sums weight_sums{}, bias_sums{};
  auto const end = rows.begin(blockIdx.x + 1);
  CT_KEEP_LOOP
  for (auto row = rows.begin(blockIdx.x) + threadIdx.x / 32; row < end; row += detail::norm_warps) {
    held_row<n, packs_per_lane, stored> dy, x, dresidual;
    dy.load(arrays.dy + row * width, width), x.load(arrays.x + row * width, width);
    if constexpr (adds) dresidual.load(arrays.dresidual + row * width, width);
    accumulate const mean = arrays.mean[row], rstd = arrays.rstd[row];
    accumulate g[n], values[n], weight[n], sum = 0, product = 0;
    CT_UNROLL
    for (int k = 0; k < packs_per_lane; ++k) {
      if (x.column(k) >= width) continue;
      dy.pack[k].unpack(g), x.pack[k].unpack(values), load_pack(arrays.weight + x.column(k), weight);
      CT_UNROLL
      for (int j = 0; j < n; ++j) {
        values[j] = (values[j] - mean) * rstd;
        sum += g[j] * weight[j];
        product += g[j] * weight[j] * values[j];
        weight_sums.sums[k][j] += g[j] * values[j];
        bias_sums.sums[k][j] += g[j];
      }
    }
    sum = warp_sum(sum) / static_cast<accumulate>(width);
    product = warp_sum(product) / static_cast<accumulate>(width);
    CT_UNROLL
    for (int k = 0; k < packs_per_lane; ++k) {
      if (x.column(k) >= width) continue;
      dy.pack[k].unpack(g), x.pack[k].unpack(values), load_pack(arrays.weight + x.column(k), weight);
      CT_UNROLL
      for (int j = 0; j < n; ++j) g[j] = rstd * (g[j] * weight[j] - sum - (values[j] - mean) * rstd * product);
      if constexpr (adds) {
        dresidual.pack[k].unpack(values);
        CT_UNROLL
        for (int j = 0; j < n; ++j) g[j] += values[j];
      }
      store_pack(g, arrays.dx + row * width + x.column(k));
    }
  }
  weight_sums.add_up(shared, width, arrays.dweight + blockIdx.x * static_cast<std::int64_t>(width));
  bias_sums.add_up(shared, width, arrays.dbias + blockIdx.x * static_cast<std::int64_t>(width));
}

} // namespace constrain
