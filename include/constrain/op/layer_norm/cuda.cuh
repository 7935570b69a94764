#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/layer_norm/layer_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// y = layer_norm(x), and the mean and rstd of each row; one block per row.
template <class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    layer_norm_kernel(stored const* x, accumulate const* weight, accumulate const* bias, stored* y, accumulate* mean,
                      accumulate* rstd, std::int64_t width, accumulate epsilon) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  stored const* from = x + row * width;
  stored* to = y + row * width;
  accumulate sum = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) sum += from[i];
  accumulate const m = block_reduction<accumulate>{shared}.sum(sum) / static_cast<accumulate>(width);
  accumulate squares = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) squares += (from[i] - m) * (from[i] - m);
  accumulate const r =
      1 / math::sqrt(block_reduction<accumulate>{shared}.sum(squares) / static_cast<accumulate>(width) + epsilon);
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) to[i] = (from[i] - m) * r * weight[i] + bias[i];
  if (threadIdx.x != 0) return;
  mean[row] = m;
  rstd[row] = r;
}

template <class architecture> struct kernel<op::layer_norm, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::layer_norm> const& c, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> bias, tensor<stored> y, tensor<accumulate> mean, tensor<accumulate> rstd) {
    cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(x.rows())), cuda_threads,
                layer_norm_kernel<stored, accumulate>, x.data, weight.data, bias.data, y.data, mean.data, rstd.data,
                x.features(), static_cast<accumulate>(c.options.epsilon));
  }
};

// Partial sums of dweight and dbias, [chunks, 2, width]: one thread per column and chunk of rows. This kernel runs
// before layer_norm_gradient_kernel, which may overwrite dy with dx.
template <class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    layer_norm_sums_kernel(stored const* dy, stored const* x, accumulate const* mean, accumulate const* rstd,
                           std::int64_t rows, std::int64_t width, accumulate* partial) {
  auto const i = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x;
  auto const chunk = static_cast<std::int64_t>(blockIdx.y);
  if (i >= width) return;
  constexpr auto chunks = op::layer_norm_gradient::chunks;
  accumulate dweight = 0, dbias = 0;
  for (auto row = part_begin(rows, chunks, chunk); row < part_begin(rows, chunks, chunk + 1); ++row) {
    accumulate const g = dy[row * width + i];
    dweight += g * ((x[row * width + i] - mean[row]) * rstd[row]);
    dbias += g;
  }
  partial[chunk * 2 * width + i] = dweight;
  partial[chunk * 2 * width + width + i] = dbias;
}

// dx = layer_norm_gradient(dy, x, weight, mean, rstd), without dweight and dbias; one block per row.
template <class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    layer_norm_gradient_kernel(stored const* dy, stored const* x, accumulate const* weight, accumulate const* mean,
                               accumulate const* rstd, stored* dx, std::int64_t width) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  stored const* g = dy + row * width;
  stored const* from = x + row * width;
  accumulate const m = mean[row], r = rstd[row];
  accumulate sum = 0, product = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) {
    sum += g[i] * weight[i];
    product += g[i] * weight[i] * ((from[i] - m) * r);
  }
  accumulate const a = block_reduction<accumulate>{shared}.sum(sum) / static_cast<accumulate>(width);
  accumulate const b = block_reduction<accumulate>{shared}.sum(product) / static_cast<accumulate>(width);
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads)
    dx[row * width + i] = r * (g[i] * weight[i] - a - ((from[i] - m) * r) * b);
}

template <class architecture> struct kernel<op::layer_norm_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 4}; }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> mean, tensor<accumulate const> rstd, tensor<stored> dx,
                  tensor<accumulate> dweight, tensor<accumulate> dbias, tensor<accumulate> partial) {
    auto& context = *c.parameters.context;
    auto const width = x.features();
    constexpr auto chunks = op::layer_norm_gradient::chunks;
    dim3 const blocks(static_cast<unsigned>((width + cuda_threads - 1) / cuda_threads), static_cast<unsigned>(chunks));
    cuda_launch(context, blocks, cuda_threads, layer_norm_sums_kernel<stored, accumulate>, dy.data, x.data, mean.data,
                rstd.data, x.rows(), width, partial.data);
    cuda<architecture> const device;
    for_elements(device, c, width,
                 sum_of_parts<accumulate>{partial.data, chunks, 2 * width, dweight.data, c.add_to(1)});
    for_elements(device, c, width,
                 sum_of_parts<accumulate>{partial.data + width, chunks, 2 * width, dbias.data, c.add_to(2)});
    cuda_launch(context, dim3(static_cast<unsigned>(x.rows())), cuda_threads,
                layer_norm_gradient_kernel<stored, accumulate>, dy.data, x.data, weight.data, mean.data, rstd.data,
                dx.data, width);
  }
};

} // namespace constrain
