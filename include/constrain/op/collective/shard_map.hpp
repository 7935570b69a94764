#pragma once

#include "constrain/op/gradient_norm/chunk.hpp"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How one instance of `elements` elements is cut into `shards` pieces: as equal as whole chunks of `chunk` elements
/// allow, the last ones shorter or empty.
struct shard_map {
  std::int64_t elements = 0;
  std::int64_t shards = 1;
  std::int64_t chunk = norm_chunk;

  /// Elements that each rank stores, whether its shard fills them or not.
  constexpr std::int64_t stored() const {
    auto const chunks = (elements + chunk - 1) / chunk;
    return std::min(elements, (chunks + shards - 1) / shards * chunk);
  }
  constexpr std::int64_t begin(std::int64_t shard) const { return std::min(elements, shard * stored()); }
  constexpr std::int64_t length(std::int64_t shard) const { return begin(shard + 1) - begin(shard); }
};

} // namespace constrain
