#pragma once

#include "constrain/device/cpu/tile_copy.hpp"
#include "constrain/device/cpu/tile_gemm.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/attention/mask.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Like std::lcm, for positive numbers. The header <numeric>, which declares std::lcm, also includes the parallel
/// algorithms, and so costs compile time.
constexpr std::int64_t least_common_multiple(std::int64_t a, std::int64_t b) {
  auto multiple = a;
  while (multiple % b != 0) multiple += a;
  return multiple;
}

/// Sizes of the tiles of the CPU kernels of flash attention, and functions that apply the mask to them. Scores are
/// stored transposed, [keys, queries], so that operations on queries vectorize.
template <class accumulate> struct flash_tile {
  // Queries per panel. The softmax processes one panel at a time. Queries are columns of the scores and rows of dq, so
  // the number is a multiple of both extents of a register tile.
  static constexpr std::int64_t panel =
      least_common_multiple(register_tile<accumulate>::columns, register_tile<accumulate>::rows);
  static constexpr std::int64_t keys = 64;                          // keys per tile
  static constexpr std::int64_t columns = 512 / sizeof(accumulate); // maximum features of a head in a chunk

  /// `count` rounded up to a multiple of `multiple`.
  static constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
  }
  /// The number of columns of a tile, rounded up to a multiple of 16, and the number of rows, rounded up to full
  /// register tiles. Tiles are loaded with zeros as padding.
  static constexpr std::int64_t padded_columns(std::int64_t count) { return round_up(count, 16); }
  static constexpr std::int64_t padded_rows(std::int64_t count) {
    return round_up(count, register_tile<accumulate>::rows);
  }
  /// The number of queries, rounded up so that they fill vector registers as columns, and register tiles as rows. Tiles
  /// of queries are loaded with zeros as padding.
  static constexpr std::int64_t padded_queries(std::int64_t count) {
    return round_up(count, least_common_multiple(register_tile<accumulate>::lanes, register_tile<accumulate>::rows));
  }
  /// Columns of a panel's scores, if `count` queries remain; the last panel may be narrower.
  static constexpr std::int64_t panel_columns(std::int64_t count) { return std::min(panel, padded_queries(count)); }
  static_assert(keys % register_tile<accumulate>::rows == 0 && columns % 16 == 0);

  /// The range of keys to which at least one of the `queries` queries from `first_query` on attends, among the `count`
  /// keys from `first_key` on; relative to `first_key`, and {0, 0} if it is empty.
  static depth_range attended_keys(attention_mask<std::int64_t> const& mask, std::int64_t first_query,
                                   std::int64_t queries, std::int64_t first_key, std::int64_t count) {
    auto const attended = mask.keys(first_query, std::min(first_query + queries, mask.masks.tokens) - 1);
    auto const begin = std::max<std::int64_t>(attended.begin - first_key, 0);
    auto const end = std::min(attended.end - first_key, count);
    return begin < end ? depth_range{begin, end} : depth_range{0, 0};
  }

  /// Where a query does not attend to a key, sets the score to the lowest finite value. `scores` [rows, panel]: a row
  /// per key from `first_key` on, a column per query from `first_query` on. `stride`: elements from one row to the
  /// next.
  static void mask_scores(attention_mask<std::int64_t> const& mask, std::int64_t first_query, std::int64_t first_key,
                          std::int64_t rows, accumulate* scores, std::int64_t stride) {
    auto const count = std::min(panel, mask.masks.tokens - first_query);
    auto const common = mask.common_keys(first_query, first_query + count - 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      auto const key = first_key + row;
      if (common.contains(key, 1)) continue;
      auto const queries = mask.queries(key, key);
      auto const begin = std::clamp<std::int64_t>(queries.begin - first_query, 0, count);
      auto const end = std::clamp<std::int64_t>(queries.end - first_query, 0, count);
      accumulate* const key_scores = scores + row * stride;
      for (std::int64_t i = 0; i < begin; ++i) key_scores[i] = std::numeric_limits<accumulate>::lowest();
      for (std::int64_t i = end; i < count; ++i) key_scores[i] = std::numeric_limits<accumulate>::lowest();
    }
  }
};

} // namespace constrain::detail
