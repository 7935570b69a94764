#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/embedding/embedding.hpp"
#include "constrain/op/embedding/gradient.cuh"
#include "constrain/op/gather_rows/cuda.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class architecture> struct kernel<op::embedding, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> table, tensor<std::int32_t const> tokens, tensor<stored> y) {
    gather_rows(cuda<architecture>{}, c, table.data, tokens, y);
  }
};

template <class architecture> struct kernel<op::embedding_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<std::int32_t const> tokens,
                  tensor<accumulate> dtable) {
    auto& context = *c.parameters.context;
    if (!c.add_to(0))
      cuda_check(cudaMemsetAsync(dtable.data, 0, static_cast<std::size_t>(dtable.count) * sizeof(accumulate),
                                 context.stream()),
                 "set a gradient to zero");
    auto const width = dy.features();
    detail::token_buckets const buckets(tokens.data, tokens.count, dtable.count / width);
    auto const launch = [&]<int n>(std::integral_constant<int, n>) {
      // With 16-bit elements, two packs: a block, which reads all tokens, then handles 256 columns instead of 128.
      constexpr int packs = n == 1 ? 1 : static_cast<int>(sizeof(accumulate) / sizeof(stored));
      constexpr int columns = detail::embedding_columns<n, packs>;
      dim3 const blocks(1u << buckets.bits, static_cast<unsigned>((width + columns - 1) / columns));
      cuda_launch(context, blocks, cuda_threads, embedding_gradient_kernel<n, packs, stored, accumulate>, dy.data,
                  buckets, width, dtable.data);
    };
    with_packs(width, launch, dy.data, dtable.data);
  }
};

} // namespace constrain
