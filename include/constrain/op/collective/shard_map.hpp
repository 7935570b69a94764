#pragma once

#include "constrain/op/gradient_norm/chunk.hpp"
#include "constrain/program/value_info.hpp"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Describes how a tensor is split into shards. Each rank stores `stored()` elements, a multiple of `chunk` unless one
/// shard holds the full tensor. The last shards may be shorter or empty; they are padded to `stored()` elements.
struct shard_map {
  std::int64_t elements = 0;       // elements of the full tensor
  std::int64_t shards = 1;         // number of shards
  std::int64_t chunk = norm_chunk; // in elements; each shard that is not empty begins at a multiple of `chunk`

  /// Elements that each rank stores, including the padding of short shards.
  constexpr std::int64_t stored() const {
    auto const chunks = (elements + chunk - 1) / chunk;
    return std::min(elements, (chunks + shards - 1) / shards * chunk);
  }
  /// `begin`: the index of the first element of shard `shard`; `elements` if the shard is empty or `shard` is `shards`.
  /// `length`: the shard's number of elements, without padding.
  constexpr std::int64_t begin(std::int64_t shard) const { return std::min(elements, shard * stored()); }
  constexpr std::int64_t length(std::int64_t shard) const { return begin(shard + 1) - begin(shard); }
};

/// The `chunk` of a value's shards. If one element of an optimizer state describes a block of `info.block` elements of
/// the parameter, the state and the parameter are split between the same blocks.
constexpr std::int64_t chunk_of(value_info const& info) { return norm_chunk / info.block; }

} // namespace constrain
