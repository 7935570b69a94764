#pragma once

#include "constrain/op/attention/head.hpp"
#include "constrain/op/flash_attention/tiles.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// One thread's work on a block of queries of one head (Dao 2023, algorithm 1). The block is split into panels of
/// queries. Each tile of keys and values updates the running maxima, sums and y of the panels that attend to it. Heads
/// wider than `columns` are split into chunks of columns; the scores are computed again for each chunk of y.
template <class stored, class accumulate> class flash_forward : flash_tile<accumulate> {
  using tile = flash_tile<accumulate>;
  using tile::columns, tile::panel;

public:
  static constexpr std::int64_t queries = 192; // queries per block
  static_assert(queries % panel == 0);

  /// `mask`: the mask of the sequence; its attention_masks must outlive this object. `q`, `k`, `v`: queries, keys and
  /// values of the head, each [tokens, head width], which are not copied.
  flash_forward(attention_mask<std::int64_t> const& mask, std::int64_t head_width, head_matrix<stored const> q,
                head_matrix<stored const> k, head_matrix<stored const> v)
      : mask_(mask), head_width_(head_width), q_(q), k_(k), v_(v) {}

  /// Computes y and the logsumexp of the block of queries that begins at `first`. `y` [tokens, head width] and
  /// `logsumexp` [tokens] belong to this head. For a query that attends to no key, both are 0.
  void run(std::int64_t first, head_matrix<stored> y, accumulate* logsumexp) {
    auto const rows = std::min(queries, mask_.masks.tokens - first);
    auto const attended = mask_.keys(first, first + rows - 1);
    for (std::int64_t column = 0; column < head_width_; column += columns) {
      auto const width = std::min(columns, head_width_ - column);
      std::fill_n(row_max_, queries, lowest);
      std::fill_n(sum_, queries, accumulate{});
      std::fill_n(y_, tile::round_up(rows, panel) * tile::padded_columns(width), accumulate{});
      for (auto& chunk : query_chunk_) chunk = -1;
      for (auto key = attended.begin; key < attended.end; key += tile::keys)
        for (std::int64_t i = 0; i < rows; i += panel) {
          panel_width_ = tile::panel_columns(rows - i);
          attend(first + i, i, key, column, width);
        }
      store(first, rows, column, width, y, logsumexp);
    }
  }

private:
  /// Updates the panel of queries that begins at `query`, which is row `i` of the block, with the tile of keys and
  /// values that begins at `key`: the maximum and sum of each query, and columns [column, column + width) of y.
  void attend(std::int64_t query, std::int64_t i, std::int64_t key, std::int64_t column, std::int64_t width) {
    auto const count = std::min(tile::keys, mask_.length - key);
    auto const key_count = tile::attended_keys(mask_, query, panel, key, count).end;
    if (key_count == 0) return;
    for (std::int64_t chunk = 0; chunk < head_width_; chunk += columns) {
      auto const depth = std::min(columns, head_width_ - chunk);
      load_queries(query, i, chunk, depth);
      load(k_, key, count, chunk, depth, keys_, key_tile_contents_);
      auto const multiply = [&](auto const& store) {
        tile_gemm<transpose::no>(tile::padded_rows(key_count), panel_width_, same_depth{{0, depth}}, keys_,
                                 tile::padded_columns(depth), queries_ + i * columns, panel, scores_, panel, store);
      };
      chunk == 0 ? multiply(overwrite{}) : multiply(add_to{});
    }
    tile::mask_scores(mask_, query, key, key_count, scores_, panel);
    alignas(64) accumulate correction[panel];
    softmax(key_count, row_max_ + i, sum_ + i, correction);
    load(v_, key, count, column, width, values_, value_tile_contents_);
    auto const padded = tile::padded_columns(width);
    tile_gemm<transpose::yes>(padded, panel_width_, same_depth{{0, key_count}}, values_, padded, scores_, panel,
                              y_ + i * padded, panel, scale_and_add_to<accumulate>{correction});
  }

  /// Updates `row_max` and `sum` with the scores of `key_count` keys, and replaces these scores with exp(score -
  /// row_max). Sets `correction` to exp(old maximum - new maximum), the factor that corrects earlier sums.
  void softmax(std::int64_t key_count, accumulate* row_max, accumulate* sum, accumulate* correction) {
    constexpr int lanes = register_tile<accumulate>::lanes;
    alignas(64) accumulate tile_sum[panel];
    for (std::int64_t i = 0; i < panel_width_; i += lanes) {
      vector const old_max = *reinterpret_cast<vector const*>(row_max + i);
      vector new_max = old_max;
      for (std::int64_t row = 0; row < key_count; ++row) {
        vector const x = *reinterpret_cast<vector const*>(scores_ + row * panel + i);
        new_max = x > new_max ? x : new_max;
      }
      *reinterpret_cast<vector*>(correction + i) = old_max - new_max;
      *reinterpret_cast<vector*>(row_max + i) = new_max;
    }
    for (auto& x : tile_sum) x = 0;
    for (std::int64_t row = 0; row < key_count; ++row) {
      accumulate* const scores = scores_ + row * panel;
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < panel_width_; ++i) {
        scores[i] = math::exp_or_zero(scores[i] - row_max[i]);
        tile_sum[i] += scores[i];
      }
    }
    CONSTRAIN_SIMD
    for (std::int64_t i = 0; i < panel_width_; ++i) {
      correction[i] = math::exp_or_zero(correction[i]);
      sum[i] = sum[i] * correction[i] + tile_sum[i];
    }
  }

  /// Loads a chunk of columns of a panel of queries, transposed and scaled, unless this chunk is already loaded. The
  /// panel begins at `query`, which is row `i` of the block. `chunk`: the first column; `depth`: the number of columns.
  void load_queries(std::int64_t query, std::int64_t i, std::int64_t chunk, std::int64_t depth) {
    if (query_chunk_[i / panel] == chunk) return;
    query_chunk_[i / panel] = chunk;
    auto const padded = tile::padded_columns(depth);
    load_tile(q_.data + query * q_.stride + chunk, q_.stride, std::min(panel, mask_.masks.tokens - query), depth,
              1 / math::sqrt(static_cast<accumulate>(head_width_)), rows_, panel_width_, padded);
    transpose_tile(rows_, padded, panel_width_, padded, queries_ + i * columns, panel);
  }

  /// The contents of a tile: its first key, and the first column of the chunk; -1: nothing is loaded.
  struct tile_contents {
    std::int64_t key = -1, chunk = -1;
    friend bool operator==(tile_contents const&, tile_contents const&) = default;
  };

  /// Loads a chunk of columns of a tile of the keys or values `from` into `to`, unless `to` already holds this chunk.
  /// The tile has `count` tokens from `key` on. `chunk`: the first column; `depth`: the number of columns; `contents`:
  /// the contents of `to`.
  void load(head_matrix<stored const> from, std::int64_t key, std::int64_t count, std::int64_t chunk,
            std::int64_t depth, accumulate* to, tile_contents& contents) {
    if (contents == tile_contents{key, chunk}) return;
    contents = {key, chunk};
    load_tile(from.data + key * from.stride + chunk, from.stride, count, depth, accumulate{1}, to,
              tile::padded_rows(count), tile::padded_columns(depth));
  }

  /// Writes columns [column, column + width) of y, divided by the sums of the softmax, and the logsumexp of the block's
  /// queries.
  void store(std::int64_t first, std::int64_t rows, std::int64_t column, std::int64_t width, head_matrix<stored> y,
             accumulate* logsumexp) {
    auto const padded = tile::padded_columns(width);
    for (std::int64_t i = 0; i < rows; ++i) {
      if (i % panel == 0) transpose_tile(y_ + i * padded, panel, padded, panel, rows_, padded);
      accumulate const* const from = rows_ + i % panel * padded;
      stored* const to = y.data + (first + i) * y.stride + column;
      bool const masked = mask_.is_fully_masked(first + i);
      accumulate const inverse = masked ? accumulate(0) : 1 / sum_[i];
      CONSTRAIN_SIMD
      for (std::int64_t c = 0; c < width; ++c) to[c] = from[c] * inverse;
      logsumexp[first + i] = masked ? accumulate(0) : row_max_[i] + math::log(sum_[i]);
    }
  }

  using vector = typename register_tile<accumulate>::vector;

  // The initial value of row_max_. It is above the scores of masked keys (flash_tile::mask_scores), so that these keys
  // have probability 0 even in a tile in which all keys are masked.
  static constexpr accumulate lowest = std::numeric_limits<accumulate>::lowest() / 2;

  attention_mask<std::int64_t> mask_;
  std::int64_t head_width_;
  head_matrix<stored const> q_, k_, v_;
  std::int64_t panel_width_ = panel;          // number of queries in the current panel, rounded up
  std::int64_t query_chunk_[queries / panel]; // first column of the chunk that each panel holds; -1: none
  tile_contents key_tile_contents_, value_tile_contents_;
  alignas(64) accumulate queries_[queries * columns]; // [panels, columns, panel], scaled by 1 / sqrt(head width)
  alignas(64) accumulate y_[queries * columns];       // [panels, padded columns, panel], not yet divided by sum_
  alignas(64) accumulate keys_[tile::keys * columns];
  alignas(64) accumulate values_[tile::keys * columns];
  alignas(64) accumulate rows_[panel * columns]; // a panel before or after its transposition, [panel, padded columns]
  alignas(64) accumulate scores_[tile::keys * panel];
  alignas(64) accumulate row_max_[queries], sum_[queries]; // of each query's softmax, over the keys visited so far
};

} // namespace constrain::detail
