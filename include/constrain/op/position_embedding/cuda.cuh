#pragma once

#include "constrain/device/cuda/divisor.hpp"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/position_embedding/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel, like `position_embedding_elements`, for packs of n elements: i is the index of a pack.
template <int n, class stored> struct position_embedding_packs {
  stored const* x;
  stored const* table;
  stored* y;
  std::int64_t packs;   // per sequence
  divisor per_sequence; // divides by `packs`

  __device__ void operator()(std::int64_t i) const {
    arithmetic<stored> values[n], table_values[n];
    load_pack(x + i * n, values), load_pack(table + (i - per_sequence.quotient(i) * packs) * n, table_values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] += table_values[j];
    store_pack(values, y + i * n);
  }
};

template <class architecture> struct kernel<op::position_embedding, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> table, tensor<stored> y) {
    auto const sequence_elements = x.shape().extent[1] * x.features();
    auto const start = [&]<int n>(std::integral_constant<int, n>) {
      for_elements(cuda<architecture>{}, c, y.count / n,
                   position_embedding_packs<n, stored>{x.data, table.data, y.data, sequence_elements / n,
                                                       divisor(sequence_elements / n)});
    };
    with_packs(sequence_elements, start, x.data, table.data, y.data);
  }
};

/// Loop body of the kernel, like `position_embedding_gradient_elements`, for packs of n elements: i is the index of a
/// pack of dtable.
template <int n, class stored, class accumulate> struct position_embedding_gradient_packs {
  stored const* dy;
  accumulate* dtable;
  std::int64_t sequences, sequence_elements; // number of sequences; elements of one sequence: tokens * width
  bool add;

  __device__ void operator()(std::int64_t i) const {
    accumulate sums[n]{}, values[n];
    if (add) load_pack(dtable + i * n, sums);
    if (i * n < sequence_elements) // the table may have more positions than dy
      for (std::int64_t b = 0; b < sequences; ++b) {
        load_pack(dy + b * sequence_elements + i * n, values);
        CT_UNROLL
        for (int j = 0; j < n; ++j) sums[j] += values[j];
      }
    store_pack(sums, dtable + i * n);
  }
};

template <class architecture> struct kernel<op::position_embedding_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<accumulate> dtable) {
    auto const sequence_elements = dy.shape().extent[1] * dy.features();
    auto const start = [&]<int n>(std::integral_constant<int, n>) {
      for_elements(cuda<architecture>{}, c, dtable.count / n,
                   position_embedding_gradient_packs<n, stored, accumulate>{dy.data, dtable.data, dy.shape().extent[0],
                                                                            sequence_elements, c.add_to(0)});
    };
    constexpr int n = pack_of<stored, accumulate>;
    if (dtable.count % n == 0 && takes_packs<n>(sequence_elements, dy.data, dtable.data))
      start(std::integral_constant<int, n>{});
    else start(std::integral_constant<int, 1>{});
  }
};

} // namespace constrain
