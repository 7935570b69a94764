#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/embedding/embedding.hpp"
#include "cub/block/block_scan.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] is an element of the table's row for the token at position i / width.
template <class stored> struct embedding_elements {
  stored const* table;
  std::int32_t const* tokens;
  stored* y;
  std::int64_t width;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const position = i / width;
    y[i] = table[tokens[position] * width + (i - position * width)];
  }
};

template <class architecture> struct kernel<op::embedding, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> table, tensor<std::int32_t const> tokens, tensor<stored> y) {
    for_elements(cuda<architecture>{}, c, y.count,
                 embedding_elements<stored>{table.data, tokens.data, y.data, y.features()});
  }
};

// dtable[row] = the sum of dy over the positions whose token is `row`. If `add`, the sum is added to dtable[row]
// instead. One block per row adds in the order of the positions, without atomics, so that all runs give bit-identical
// results.
template <class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    embedding_gradient_kernel(stored const* dy, std::int32_t const* tokens, std::int64_t positions, std::int64_t width,
                              accumulate* dtable, bool add) {
  using scan = cub::BlockScan<int, cuda_threads>;
  __shared__ typename scan::TempStorage temporary;
  __shared__ std::int64_t matches[cuda_threads];
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  accumulate* const to = dtable + row * width;
  if (!add)
    for (std::int64_t k = threadIdx.x; k < width; k += cuda_threads) to[k] = 0;
  for (std::int64_t from = 0; from < positions; from += cuda_threads) {
    auto const position = from + threadIdx.x;
    int const is_match = position < positions && tokens[position] == row ? 1 : 0;
    int match_index = 0, match_count = 0;
    scan(temporary).ExclusiveSum(is_match, match_index, match_count);
    if (is_match != 0) matches[match_index] = position;
    __syncthreads();
    for (std::int64_t k = threadIdx.x; k < width; k += cuda_threads)
      for (int i = 0; i < match_count; ++i) to[k] += dy[matches[i] * width + k];
    __syncthreads();
  }
}

template <class architecture> struct kernel<op::embedding_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<std::int32_t const> tokens,
                  tensor<accumulate> dtable) {
    cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(dtable.rows())), cuda_threads,
                embedding_gradient_kernel<stored, accumulate>, dy.data, tokens.data, tokens.count, dy.features(),
                dtable.data, c.add_to(0));
  }
};

} // namespace constrain
