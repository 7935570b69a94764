#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/layer_norm/layer_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class stored, class real>
static __global__ void __launch_bounds__(cuda_threads)
    layer_norm_kernel(stored const* x, real const* weight, real const* bias, stored* y, real* mean, real* inverse_deviation,
                      std::int64_t width, real epsilon) {
  __shared__ typename block_reduction<real>::memory shared;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  stored const* from = x + row * width;
  stored* to = y + row * width;
  real sum = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) sum += from[i];
  real const m = block_reduction<real>{shared}.sum(sum) / static_cast<real>(width);
  real squares = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) squares += (from[i] - m) * (from[i] - m);
  real const r = 1 / math::sqrt(block_reduction<real>{shared}.sum(squares) / static_cast<real>(width) + epsilon);
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) to[i] = (from[i] - m) * r * weight[i] + bias[i];
  if (threadIdx.x != 0) return;
  mean[row] = m;
  inverse_deviation[row] = r;
}

template <class architecture> struct kernel<op::layer_norm, cuda<architecture>> {
  template <class stored, class real>
  static void run(call const& c, tensor<stored const> x, tensor<real const> weight, tensor<real const> bias, tensor<stored> y,
                  tensor<real> mean, tensor<real> inverse_deviation) {
    cuda_launch(*c.numbers.queue, dim3(static_cast<unsigned>(x.rows())), cuda_threads, layer_norm_kernel<stored, real>, x.data,
                weight.data, bias.data, y.data, mean.data, inverse_deviation.data, x.features(),
                static_cast<real>(c.options.real[0]));
  }
};

// The parameters' gradients, a chunk of rows a block: before dx, which may be written over dy.
template <class stored, class real>
static __global__ void __launch_bounds__(cuda_threads)
    layer_norm_sums_kernel(stored const* dy, stored const* x, real const* mean, real const* inverse_deviation, std::int64_t rows,
                           std::int64_t width, real* partial) {
  auto const i = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x;
  auto const chunk = static_cast<std::int64_t>(blockIdx.y);
  if (i >= width) return;
  constexpr auto chunks = op::layer_norm_gradient::chunks;
  real dweight = 0, dbias = 0;
  for (auto row = part_begin(rows, chunks, chunk); row < part_begin(rows, chunks, chunk + 1); ++row) {
    real const g = dy[row * width + i];
    dweight += g * ((x[row * width + i] - mean[row]) * inverse_deviation[row]);
    dbias += g;
  }
  partial[chunk * 2 * width + i] = dweight;
  partial[chunk * 2 * width + width + i] = dbias;
}

template <class stored, class real>
static __global__ void __launch_bounds__(cuda_threads)
    layer_norm_gradient_kernel(stored const* dy, stored const* x, real const* weight, real const* mean,
                               real const* inverse_deviation, stored* dx, std::int64_t width) {
  __shared__ typename block_reduction<real>::memory shared;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  stored const* g = dy + row * width;
  stored const* from = x + row * width;
  real const m = mean[row], r = inverse_deviation[row];
  real sum = 0, product = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads) {
    sum += g[i] * weight[i];
    product += g[i] * weight[i] * ((from[i] - m) * r);
  }
  real const a = block_reduction<real>{shared}.sum(sum) / static_cast<real>(width);
  real const b = block_reduction<real>{shared}.sum(product) / static_cast<real>(width);
  for (std::int64_t i = threadIdx.x; i < width; i += cuda_threads)
    dx[row * width + i] = r * (g[i] * weight[i] - a - ((from[i] - m) * r) * b);
}

template <class architecture> struct kernel<op::layer_norm_gradient, cuda<architecture>> {
  template <class stored, class real>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<real const> weight, tensor<real const> mean,
                  tensor<real const> inverse_deviation, tensor<stored> dx, tensor<real> dweight, tensor<real> dbias,
                  tensor<real> partial) {
    auto& queue = *c.numbers.queue;
    auto const width = x.features();
    constexpr auto chunks = op::layer_norm_gradient::chunks;
    dim3 const blocks(static_cast<unsigned>((width + cuda_threads - 1) / cuda_threads), static_cast<unsigned>(chunks));
    cuda_launch(queue, blocks, cuda_threads, layer_norm_sums_kernel<stored, real>, dy.data, x.data, mean.data,
                inverse_deviation.data, x.rows(), width, partial.data);
    cuda<architecture> const device;
    for_elements(device, c, width, sum_of_parts<real>{partial.data, chunks, 2 * width, dweight.data, c.add_to(1)});
    for_elements(device, c, width, sum_of_parts<real>{partial.data + width, chunks, 2 * width, dbias.data, c.add_to(2)});
    cuda_launch(queue, dim3(static_cast<unsigned>(x.rows())), cuda_threads, layer_norm_gradient_kernel<stored, real>, dy.data,
                x.data, weight.data, mean.data, inverse_deviation.data, dx.data, width);
  }
};

} // namespace constrain
