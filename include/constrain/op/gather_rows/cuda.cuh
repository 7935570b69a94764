#pragma once

#include "constrain/device/cuda/divisor.hpp"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/gather_rows/gather_rows.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: copies pack i of y, n elements, from x; row r of y is row rows[r] of x. `per_row` divides
/// by `packs`.
template <int n, class stored> struct gather_rows_packs {
  stored const* x;
  std::int32_t const* rows;
  stored* y;
  std::int64_t packs; // per row
  divisor per_row;

  __device__ void operator()(std::int64_t i) const {
    auto const row = per_row.quotient(i);
    store_stored(load_stored<n>(x + (rows[row] * packs + (i - row * packs)) * n), y + i * n);
  }
};
/// Loop body of the kernel for later writes: adds pack i of dy to dx; row r of dy is added to row rows[r] of dx. The
/// indices in `rows` must be distinct.
template <int n, class stored> struct add_rows_packs {
  stored const* dy;
  std::int32_t const* rows;
  stored* dx;
  std::int64_t packs; // per row
  divisor per_row;

  __device__ void operator()(std::int64_t i) const {
    auto const row = per_row.quotient(i);
    stored* const to = dx + (rows[row] * packs + (i - row * packs)) * n;
    arithmetic<stored> sums[n], values[n];
    load_pack(to, sums), load_pack(dy + i * n, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) sums[j] += values[j];
    store_pack(sums, to);
  }
};

/// Row i of y = row rows[i] of x. `rows` must not be empty. The indices in `rows` need not be distinct.
template <class architecture, class stored>
void gather_rows(cuda<architecture> device, call const& c, stored const* x, tensor<std::int32_t const> rows,
                 tensor<stored> y) {
  auto const width = y.count / rows.count;
  auto const launch = [&]<int n>(std::integral_constant<int, n>) {
    for_elements(device, c, y.count / n,
                 gather_rows_packs<n, stored>{x, rows.data, y.data, width / n, divisor(width / n)});
  };
  with_packs(width, launch, x, y.data);
}

template <class architecture> struct kernel<op::gather_rows, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<std::int32_t const> rows, tensor<stored> y) {
    gather_rows(cuda<architecture>{}, c, x.data, rows, y);
  }
};

// The kernel for the first write. Each block fills a row r of dx with the row i of dy for which rows[i] = r, or with
// zeros if there is no such row; n elements per access.
template <int n, class stored>
static __global__ void __launch_bounds__(cuda_threads)
    scatter_rows_kernel(stored const* dy, std::int32_t const* rows, std::int64_t count, std::int64_t width,
                        stored* dx) {
  __shared__ std::int64_t source_row;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  if (threadIdx.x == 0) source_row = -1;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < count; i += cuda_threads)
    if (rows[i] == row) source_row = i;
  __syncthreads();
  CT_KEEP_LOOP
  for (auto k = static_cast<std::int64_t>(threadIdx.x) * n; k < width; k += cuda_threads * n)
    store_stored(source_row < 0 ? stored_pack<n, stored>{} : load_stored<n>(dy + source_row * width + k),
                 dx + row * width + k);
}

template <class architecture> struct kernel<op::scatter_rows, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<std::int32_t const> rows, tensor<stored> dx) {
    auto const width = dy.count / rows.count;
    auto const launch = [&]<int n>(std::integral_constant<int, n>) {
      if (c.add_to(0))
        for_elements(cuda<architecture>{}, c, dy.count / n,
                     add_rows_packs<n, stored>{dy.data, rows.data, dx.data, width / n, divisor(width / n)});
      else
        cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(dx.count / width)), cuda_threads,
                    scatter_rows_kernel<n, stored>, dy.data, rows.data, rows.count, width, dx.data);
    };
    with_packs(width, launch, dy.data, dx.data);
  }
};

} // namespace constrain
