#pragma once

#include "constrain/device/cuda/divisor.hpp"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/rotary_embedding/table.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: iteration i rotates n pairs, whose first elements are adjacent.
template <int n, class stored, class accumulate> struct rotary_embedding_packs {
  stored const* x;
  accumulate const* table;
  std::int32_t const* positions; // position of each row; null: the index of the row in its sequence
  stored* y;
  std::int64_t from_stride, to_stride;   // elements from one row to the next
  std::int64_t half, packs;              // half of the head width, in elements and in packs
  std::int64_t heads, tokens;            // heads of a row; rows of a sequence
  divisor by_packs, by_heads, by_tokens; // divide by `packs`, `heads` and `tokens`
  accumulate sign;                       // of the angles: 1, or -1 to rotate back

  __device__ void operator()(std::int64_t i) const {
    auto const head_index = by_packs.quotient(i);
    auto const j = (i - head_index * packs) * n;
    auto const row = by_heads.quotient(head_index);
    auto const token = positions == nullptr ? row - by_tokens.quotient(row) * tokens : std::int64_t{positions[row]};
    auto const begin = (head_index - row * heads) * 2 * half + j;
    stored const* const from = x + row * from_stride + begin;
    stored* const to = y + row * to_stride + begin;
    accumulate const* const cosines = table + token * 2 * half + j;
    arithmetic<stored> first[n], second[n];
    accumulate cosine[n], sine[n];
    load_pack(from, first), load_pack(from + half, second);
    load_pack(cosines, cosine), load_pack(cosines + half, sine);
    arithmetic<stored> rotated[n];
    CT_UNROLL
    for (int k = 0; k < n; ++k) rotated[k] = first[k] * cosine[k] - second[k] * (sign * sine[k]);
    store_pack(rotated, to);
    CT_UNROLL
    for (int k = 0; k < n; ++k) rotated[k] = second[k] * cosine[k] + first[k] * (sign * sine[k]);
    store_pack(rotated, to + half);
  }
};

template <class architecture> struct kernel<op::rotary_embedding, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::rotary_embedding> const& c, tensor<stored const> x, tensor<accumulate const> table,
                  tensor<stored> y) {
    run(c, x, table, tensor<std::int32_t const>(), y);
  }
  template <class stored, class accumulate>
  static void run(call_of<op::rotary_embedding> const& c, tensor<stored const> x, tensor<accumulate const> table,
                  tensor<std::int32_t const> positions, tensor<stored> y) {
    auto const half = table.features() / 2, heads = x.features() / (2 * half), tokens = x.shape().extent[1];
    auto const start = [&]<int n>(std::integral_constant<int, n>) {
      for_elements(cuda<architecture>{}, c, x.count / 2 / n,
                   rotary_embedding_packs<n, stored, accumulate>{
                       x.data, table.data, positions.data, y.data, x.row_stride(), y.row_stride(), half, half / n,
                       heads, tokens, divisor(half / n), divisor(heads), divisor(tokens),
                       c.options.back ? accumulate(-1) : accumulate(1)});
    };
    constexpr int n = pack_of<stored, accumulate>;
    bool const uses_packs =
        half % n == 0 && x.row_stride() % n == 0 && y.row_stride() % n == 0 && are_aligned(x.data, table.data, y.data);
    if (uses_packs) start(std::integral_constant<int, n>{});
    else start(std::integral_constant<int, 1>{});
  }
};

} // namespace constrain
