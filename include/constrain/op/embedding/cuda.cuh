#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/embedding/embedding.hpp"

#include <cub/block/block_scan.cuh>

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

namespace detail {

inline constexpr int embedding_threads = 128;
inline constexpr int embedding_chunk = 8 * embedding_threads; // positions that a block compares between two barriers

/// Whether `token` is at one of the positions of the chunk that begins at `from`, before `end`.
/// All threads of the block must take part.
__device__ inline bool occurs_in_chunk(std::int32_t const* tokens, std::int32_t token, std::int64_t from,
                                       std::int64_t end) {
  bool found = false;
  CT_UNROLL
  for (int k = 0; k < embedding_chunk; k += embedding_threads) {
    auto const position = from + k + threadIdx.x;
    found = found || (position < end && tokens[position] == token);
  }
  return __syncthreads_or(found ? 1 : 0) != 0;
}

} // namespace detail

// dtable[token] += the sum of dy over the positions of the token; n columns per access. The block of the token's first
// position adds the rows in the order of the positions, without atomics, so that all runs give bit-identical results.
template <int n, class stored, class accumulate>
static __global__ void __launch_bounds__(detail::embedding_threads)
    embedding_gradient_kernel(stored const* dy, std::int32_t const* tokens, std::int64_t positions, std::int64_t width,
                              accumulate* dtable) {
  constexpr int threads = detail::embedding_threads, chunk = detail::embedding_chunk;
  using scan = cub::BlockScan<int, threads>;
  __shared__ typename scan::TempStorage temporary;
  __shared__ std::int64_t matches[threads];
  auto const first = static_cast<std::int64_t>(blockIdx.x);
  auto const token = tokens[first];
  for (std::int64_t from = 0; from < first; from += chunk)
    if (detail::occurs_in_chunk(tokens, token, from, first)) return;
  accumulate* const to = dtable + token * width;
  accumulate sums[n], values[n];
  for (auto begin = first; begin < positions; begin += chunk) {
    if (!detail::occurs_in_chunk(tokens, token, begin, positions)) continue;
    for (auto from = begin; from < begin + chunk && from < positions; from += threads) {
      auto const position = from + threadIdx.x;
      int const is_match = position < positions && tokens[position] == token ? 1 : 0;
      int match_index = 0, match_count = 0;
      scan(temporary).ExclusiveSum(is_match, match_index, match_count);
      if (is_match != 0) matches[match_index] = position;
      __syncthreads();
      for (auto i = static_cast<std::int64_t>(threadIdx.x) * n; match_count > 0 && i < width; i += threads * n) {
        load_pack(to + i, sums);
        for (int match = 0; match < match_count; ++match) {
          load_pack(dy + matches[match] * width + i, values);
          CT_UNROLL
          for (int j = 0; j < n; ++j) sums[j] += values[j];
        }
        store_pack(sums, to + i);
      }
      __syncthreads();
    }
  }
}

template <class architecture> struct kernel<op::embedding_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<std::int32_t const> tokens,
                  tensor<accumulate> dtable) {
    auto& context = *c.parameters.context;
    if (!c.add_to(0))
      cuda_check(cudaMemsetAsync(dtable.data, 0, static_cast<std::size_t>(dtable.count) * sizeof(accumulate),
                                 context.stream()),
                 "set a gradient to zero");
    auto const launch = [&](auto* kernel) {
      cuda_launch(context, dim3(static_cast<unsigned>(tokens.count)), detail::embedding_threads, kernel, dy.data,
                  tokens.data, tokens.count, dy.features(), dtable.data);
    };
    if (takes_packs<stored>(dy.features(), dy.data, dtable.data))
      launch(&embedding_gradient_kernel<pack_of<stored>, stored, accumulate>);
    else launch(&embedding_gradient_kernel<1, stored, accumulate>);
  }
};

} // namespace constrain
