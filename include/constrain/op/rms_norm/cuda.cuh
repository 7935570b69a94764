#pragma once

#include "constrain/op/layer_norm/cuda.cuh"
#include "constrain/op/rms_norm/rms_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The arrays of rms_norm_gradient: dy, x and dx [rows, width], weight [width], rstd [rows].
template <class stored, class accumulate> struct rms_norm_gradient_arrays {
  stored const *dy, *x;
  accumulate const *weight, *rstd;
  stored* dx;
  accumulate* dweight; // [blocks, width]: the sums over the rows of each block
};

/// Adds the contributions of the first `count` rows of dy and x to a block's partial sums of dweight, `sums` [width];
/// if `starts`, overwrites the sums instead. rstd [count]: of these rows. n: columns per access. All threads of the
/// block must call this function.
template <int n, class stored, class accumulate>
__device__ void add_rms_norm_columns(stored const* dy, stored const* x, accumulate const* rstd, int count,
                                     std::int64_t width, bool starts, accumulate* sums) {
  for (auto i = static_cast<std::int64_t>(threadIdx.x) * n; i < width; i += cuda_threads * n) {
    accumulate weight_sums[n]{}, gradient[n], input[n];
    if (!starts) load_pack(sums + i, weight_sums);
    for (int row = 0; row < count; ++row) {
      load_pack(dy + row * width + i, gradient), load_pack(x + row * width + i, input);
      CT_UNROLL
      for (int j = 0; j < n; ++j) weight_sums[j] += gradient[j] * (input[j] * rstd[row]);
    }
    store_pack(weight_sums, sums + i);
  }
}

} // namespace detail

// y = rms_norm(x), and the rstd of each row; one warp per row (held_row), n elements per access.
template <int n, int packs_per_lane, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    rms_norm_kernel(stored const* x, accumulate const* weights, stored* y, accumulate* rstd, std::int64_t rows,
                    std::int64_t width, accumulate epsilon) {
  auto const row = static_cast<std::int64_t>(blockIdx.x) * detail::norm_warps + threadIdx.x / 32;
  if (row >= rows) return;
  held_row<n, packs_per_lane, stored> held;
  held.load(x + row * width, static_cast<int>(width));
  accumulate squares = 0;
  held.for_each_pack(static_cast<int>(width), [&](int, accumulate const(&values)[n]) {
    CT_UNROLL
    for (int j = 0; j < n; ++j) squares += values[j] * values[j];
  });
  accumulate const r = 1 / math::sqrt(warp_sum(squares) / static_cast<accumulate>(width) + epsilon);
  held.for_each_pack(static_cast<int>(width), [&](int column, accumulate(&values)[n]) {
    accumulate weight[n];
    load_pack(weights + column, weight);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] = values[j] * r * weight[j];
    store_pack(values, y + row * width + column);
  });
  if (threadIdx.x % 32 == 0) rstd[row] = r;
}

// dx = rms_norm_gradient(dy, x, weight, rstd), and partial sums of dweight. A block handles a part of the rows, in
// groups, in three passes, as in layer_norm_gradient_kernel; dx may overwrite dy. n: elements per access.
template <int n, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads, 2)
    rms_norm_gradient_kernel(detail::rms_norm_gradient_arrays<stored, accumulate> arrays, row_partition rows,
                             std::int64_t width) {
  constexpr int group = detail::norm_group;
  __shared__ accumulate rstd[group], mean_of_product[group];
  auto const lane = static_cast<std::int64_t>(threadIdx.x % 32) * n;
  int const warp = static_cast<int>(threadIdx.x / 32);
  auto const first = rows.begin(blockIdx.x), end = rows.begin(blockIdx.x + 1);
  accumulate g[n], x[n], weight[n];
  for (auto begin = first; begin < end; begin += group) {
    int const count = static_cast<int>(end - begin < group ? end - begin : group);
    stored const* const dy_rows = arrays.dy + begin * width;
    stored const* const x_rows = arrays.x + begin * width;
    for (int row = warp; row < count; row += detail::norm_warps) {
      accumulate const r = arrays.rstd[begin + row];
      accumulate product = 0;
      for (auto i = lane; i < width; i += 32 * n) {
        load_pack(dy_rows + row * width + i, g), load_pack(x_rows + row * width + i, x);
        load_pack(arrays.weight + i, weight);
        CT_UNROLL
        for (int j = 0; j < n; ++j) product += g[j] * weight[j] * (x[j] * r);
      }
      product = warp_sum(product) / static_cast<accumulate>(width);
      if (lane == 0) rstd[row] = r, mean_of_product[row] = product;
    }
    __syncthreads();
    detail::add_rms_norm_columns<n == 1 ? 1 : 2>(dy_rows, x_rows, rstd, count, width, begin == first,
                                                 arrays.dweight + blockIdx.x * width);
    __syncthreads();
    for (int row = warp; row < count; row += detail::norm_warps) {
      auto const offset = (begin + row) * width;
      for (auto i = lane; i < width; i += 32 * n) {
        load_pack(arrays.dy + offset + i, g), load_pack(arrays.x + offset + i, x), load_pack(arrays.weight + i, weight);
        CT_UNROLL
        for (int j = 0; j < n; ++j) g[j] = rstd[row] * (g[j] * weight[j] - (x[j] * rstd[row]) * mean_of_product[row]);
        store_pack(g, arrays.dx + offset + i);
      }
    }
    __syncthreads();
  }
}

template <class architecture> struct kernel<op::rms_norm, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::rms_norm> const& c, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<stored> y, tensor<accumulate> rstd) {
    auto const launch = [&](auto* kernel) {
      auto const blocks = static_cast<unsigned>((y.rows() + detail::norm_warps - 1) / detail::norm_warps);
      cuda_launch(*c.parameters.context, dim3(blocks), cuda_threads, kernel, x.data, weight.data, y.data, rstd.data,
                  y.rows(), y.features(), static_cast<accumulate>(c.options.epsilon));
    };
    constexpr int n = pack_of<stored, accumulate>;
    if (takes_packs<n>(y.features(), x.data, weight.data, y.data))
      with_held_packs<stored, n, 8, 24, 64>(y.features(),
                                            [&]<int packs_per_lane>(std::integral_constant<int, packs_per_lane>) {
                                              launch(&rms_norm_kernel<n, packs_per_lane, stored, accumulate>);
                                            });
    else launch(&rms_norm_kernel<1, 0, stored, accumulate>);
  }
};

template <class architecture> struct kernel<op::rms_norm_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const& out) {
    return needs_of_sum_columns(out[0].rows(), out[0].features(), out[1]);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> rstd, tensor<stored> dx, tensor<accumulate> dweight, tensor<accumulate>) {
    bool const stays_in_parts = dweight.shape().rank == 2;
    auto const parts = stays_in_parts ? dweight.shape().extent[0] : row_parts(dx.rows()), width = dx.features();
    auto* const sums = stays_in_parts ? dweight.data : c.scratch_as<accumulate>();
    detail::rms_norm_gradient_arrays<stored, accumulate> const arrays{dy.data,   x.data,  weight.data,
                                                                      rstd.data, dx.data, sums};
    auto const launch = [&](auto* kernel) {
      cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(parts)), cuda_threads, kernel, arrays,
                  row_partition(dx.rows(), parts), width);
    };
    constexpr int n = pack_of<stored, accumulate>;
    if (takes_packs<n>(width, dy.data, x.data, weight.data, dx.data, sums))
      launch(&rms_norm_gradient_kernel<n, stored, accumulate>);
    else launch(&rms_norm_gradient_kernel<1, stored, accumulate>);
    if (stays_in_parts) return;
    detail::parts_array<accumulate, 1> const entries{
        {{sums, dweight.data, width, width, parts, 1, c.add_to(1) ? 1 : 0}}};
    start_sum_parts(*c.parameters.context, entries, 1);
  }
};

} // namespace constrain
