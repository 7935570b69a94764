#pragma once

#include "constrain/train/parameter_table.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE bool parameter_list::has_setting(std::string_view name) const {
  return std::any_of(settings, settings + settings_size, [&](tensor_info const& s) { return this->name(s) == name; });
}

[[gnu::cold]] CONSTRAIN_INLINE void tensor_info::for_each_run(int rank, function_ref<void(stored_run const&)> f) const {
  auto const sharding = map();
  // Consecutive tensor groups hold consecutive shards; all ranks of a tensor group hold the same shard of their ranges.
  auto const shard = rank / tensor_ranks % shards, first = sharding.begin(shard), end = first + sharding.length(shard);
  if (divided < 0) return f({first, 0, end - first});
  std::int64_t outer = 1, inner = 1;
  for (int k = 0; k < divided; ++k) outer *= shape.extent[k];
  for (int k = divided + 1; k < shape.rank; ++k) inner *= shape.extent[k];
  auto const division = rank % tensor_ranks, missing = division == tensor_ranks - 1 ? unused * inner : 0;
  // Each part consists of one range per rank. `part_begin`: where the part begins in the full tensor. `range_begin`:
  // where this rank's range begins among the elements that this rank holds.
  std::int64_t part_begin = 0, range_begin = 0;
  for (std::int64_t i = 0; i < outer; ++i)
    for (auto extent : parts.extents) {
      auto const length = extent * inner, from = std::max(range_begin, first),
                 to = std::min(range_begin + length - missing, end);
      if (from < to) f({part_begin + division * length + from - range_begin, from - first, to - from});
      part_begin += (extent * tensor_ranks - unused) * inner, range_begin += length;
    }
}

} // namespace constrain
