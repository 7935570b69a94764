#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/gather_rows/gather_rows.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] is an element of row rows[i / width] of x.
template <class stored> struct gather_rows_elements {
  stored const* x;
  std::int32_t const* rows;
  stored* y;
  std::int64_t width;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const row = i / width;
    y[i] = x[rows[row] * width + (i - row * width)];
  }
};

template <class architecture> struct kernel<op::gather_rows, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<std::int32_t const> rows, tensor<stored> y) {
    for_elements(cuda<architecture>{}, c, y.count,
                 gather_rows_elements<stored>{x.data, rows.data, y.data, y.count / rows.count});
  }
};

/// Loop body of the kernel for writes after the first: adds dy[i] to an element of row rows[i / width] of dx.
template <class stored> struct add_rows_elements {
  stored const* dy;
  std::int32_t const* rows;
  stored* dx;
  std::int64_t width;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const row = i / width;
    auto const to = rows[row] * width + (i - row * width);
    dx[to] = dx[to] + dy[i];
  }
};

// The kernel for the first write. Each block fills a row r of dx with the row i of dy for which rows[i] = r, or with
// zeros if there is no such row.
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    scatter_rows_kernel(stored const* dy, std::int32_t const* rows, std::int64_t count, std::int64_t width,
                        stored* dx) {
  __shared__ std::int64_t from;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  if (threadIdx.x == 0) from = -1;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < count; i += cuda_threads)
    if (rows[i] == row) from = i;
  __syncthreads();
  for (std::int64_t k = threadIdx.x; k < width; k += cuda_threads)
    dx[row * width + k] = from < 0 ? stored(0) : dy[from * width + k];
}

template <class architecture> struct kernel<op::scatter_rows, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<std::int32_t const> rows, tensor<stored> dx) {
    auto const width = dy.count / rows.count;
    if (c.add_to(0))
      return for_elements(cuda<architecture>{}, c, dy.count,
                          add_rows_elements<stored>{dy.data, rows.data, dx.data, width});
    cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(dx.count / width)), cuda_threads,
                scatter_rows_kernel<stored>, dy.data, rows.data, rows.count, width, dx.data);
  }
};

} // namespace constrain
