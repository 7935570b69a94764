#pragma once

#include "constrain/device/cuda/launch.cuh"
#include "constrain/op/embedding/embedding.hpp"
#include "cub/block/block_scan.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class real> struct embedding_elements {
  real const* table;
  std::int32_t const* tokens;
  real* y;
  std::int64_t width;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const place = i / width;
    y[i] = table[tokens[place] * width + (i - place * width)];
  }
};

template <class architecture> struct kernel<op::embedding, cuda<architecture>> {
  template <class real>
  static void run(call const& c, tensor<real const> table, tensor<std::int32_t const> tokens, tensor<real> y) {
    for_elements(cuda<architecture>{}, c, y.count, embedding_elements<real>{table.data, tokens.data, y.data, y.features()});
  }
};

// A block owns a row of the table and adds the places that read it in their order: no atomics, the same bits each time.
template <class real, class sum_type>
static __global__ void __launch_bounds__(cuda_threads)
    embedding_gradient_kernel(real const* dy, std::int32_t const* tokens, std::int64_t places, std::int64_t width,
                              sum_type* dtable, bool add) {
  using scan = cub::BlockScan<int, cuda_threads>;
  __shared__ typename scan::TempStorage temporary;
  __shared__ std::int64_t readers[cuda_threads];
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  sum_type* const to = dtable + row * width;
  if (!add)
    for (std::int64_t k = threadIdx.x; k < width; k += cuda_threads) to[k] = 0;
  for (std::int64_t from = 0; from < places; from += cuda_threads) {
    auto const place = from + threadIdx.x;
    int const reads = place < places && tokens[place] == row ? 1 : 0;
    int before = 0, all = 0;
    scan(temporary).ExclusiveSum(reads, before, all);
    if (reads != 0) readers[before] = place;
    __syncthreads();
    for (std::int64_t k = threadIdx.x; k < width; k += cuda_threads)
      for (int i = 0; i < all; ++i) to[k] += dy[readers[i] * width + k];
    __syncthreads();
  }
}

template <class architecture> struct kernel<op::embedding_gradient, cuda<architecture>> {
  template <class real, class sum_type>
  static void run(call const& c, tensor<real const> dy, tensor<std::int32_t const> tokens, tensor<sum_type> dtable) {
    cuda_launch(*c.numbers.queue, dim3(static_cast<unsigned>(dtable.rows())), cuda_threads,
                embedding_gradient_kernel<real, sum_type>, dy.data, tokens.data, tokens.count, dy.features(), dtable.data,
                c.add_to(0));
  }
};

} // namespace constrain
