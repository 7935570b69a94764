#pragma once

#include "constrain/train/parameter_table.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void tensor_info::for_each_run(int rank,
                                                              function_ref<void(stored_run const&)> f) const {
  if (tensor_ranks == 1) {
    auto const held = map();
    auto const shard = shards == 1 ? 0 : rank;
    return f({held.begin(shard), 0, held.length(shard)});
  }
  std::int64_t outer = 1, inner = 1;
  for (int k = 0; k < divided; ++k) outer *= shape.extent[k];
  for (int k = divided + 1; k < shape.rank; ++k) inner *= shape.extent[k];
  std::int64_t begin = 0, at = 0;
  for (std::int64_t i = 0; i < outer; ++i)
    for (auto extent : parts.extents) {
      auto const length = extent * inner;
      f({begin + rank * length, at, length});
      begin += length * tensor_ranks, at += length;
    }
}

} // namespace constrain
