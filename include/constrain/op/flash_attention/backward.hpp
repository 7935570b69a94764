#pragma once

#include "constrain/op/attention/head.hpp"
#include "constrain/op/flash_attention/tiles.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Inputs and outputs of the backward pass of one query head.
template <class stored, class accumulate> struct flash_backward_operands {
  head_matrix<stored const> dy, q, k, v; // inputs, [tokens, head width]
  accumulate const* logsumexp;           // [tokens]: logsumexp of each query's scaled scores
  accumulate const* row_sums;            // [tokens]: sum(dy * y) of each query
  head_matrix<stored> dq, dk, dv;        // outputs, [tokens, head width]
};

/// One thread's work on the gradients of one head (Dao 2023, algorithm 2). For each pair of a tile of queries and a
/// tile of keys to which at least one of these queries attends, the thread recomputes the probabilities, computes the
/// gradient of the scores, and adds the pair's contributions to dq, dk and dv. Heads wider than `columns` are split
/// into chunks of columns; the probabilities are computed again for each chunk of the gradients.
template <class stored, class accumulate> class flash_backward : flash_tile<accumulate> {
  using tile = flash_tile<accumulate>;
  using tile::columns, tile::panel;

public:
  using tile::keys;
  static constexpr std::int64_t queries = 96; // queries per tile
  static_assert(queries % panel == 0 && keys <= queries);

  /// `mask`: the mask of the sequence; its attention_masks must outlive this object. `operands`: the arrays of the
  /// head, which are not copied.
  flash_backward(attention_mask<std::int64_t> const& mask, std::int64_t head_width,
                 flash_backward_operands<stored, accumulate> const& operands)
      : mask_(mask), head_width_(head_width), operands_(operands),
        scale_(1 / math::sqrt(static_cast<accumulate>(head_width))) {}

  /// The sums of dk and dv over the tiles of queries and over the query heads that share dk and dv: matrices [tokens,
  /// head width].
  struct key_sums {
    head_matrix<accumulate> dk, dv;
  };
  /// The memory of the sums: dk and dv themselves, or `scratch` [tokens, 2 * head width] if dk and dv have a narrower
  /// type than `accumulate`.
  key_sums sums_in(accumulate* scratch) const {
    if constexpr (in_place) return {operands_.dk, operands_.dv};
    else return {{scratch, 2 * head_width_}, {scratch + head_width_, 2 * head_width_}};
  }

  /// Sets the sums of dk and dv to 0.
  void clear_sums(key_sums const& sums) const {
    for (std::int64_t key = 0; key < mask_.masks.tokens; ++key) {
      std::fill_n(sums.dk.data + key * sums.dk.stride, head_width_, accumulate{});
      std::fill_n(sums.dv.data + key * sums.dv.stride, head_width_, accumulate{});
    }
  }

  /// Computes dq of the head, and adds the head's contributions to the sums of dk and dv.
  void add_gradients(key_sums const& sums) {
    for_chunks([&] {
      for (query_ = 0; query_ < mask_.masks.tokens; query_ += queries) {
        clear(dq_tile_, queries);
        auto const attended = mask_.keys(query_, query_ + query_count() - 1);
        for (auto key = attended.begin; key < attended.end; key += keys) {
          compute_probabilities(query_, key);
          add_query_gradients();
          add_key_gradients();
          add(dk_tile_, key_count(), sums.dk, key);
          add(dv_tile_, key_count(), sums.dv, key);
        }
        store(dq_tile_, padded_, query_count(), scale_, operands_.dq, query_);
      }
    });
  }

  /// Writes dk and dv from the complete sums, unless dk and dv hold the sums.
  void store_sums(key_sums const& sums) {
    if constexpr (!in_place)
      for_chunks([&] {
        store(sums.dk.data + column_, sums.dk.stride, mask_.masks.tokens, accumulate{1}, operands_.dk, 0);
        store(sums.dv.data + column_, sums.dv.stride, mask_.masks.tokens, accumulate{1}, operands_.dv, 0);
      });
  }

  /// Computes dq, dk and dv of a head with at most `keys` tokens, which form one tile of queries and one tile of keys.
  /// The head must not share dk and dv with another head, and the sequence must have no padding.
  void compute_one_tile() {
    for_chunks([&] {
      clear(dq_tile_, queries);
      compute_probabilities(0, 0);
      add_query_gradients();
      add_key_gradients();
      store(dq_tile_, padded_, query_count(), scale_, operands_.dq, 0);
      store(dk_tile_, padded_, key_count(), accumulate{1}, operands_.dk, 0);
      store(dv_tile_, padded_, key_count(), accumulate{1}, operands_.dv, 0);
    });
  }

private:
  std::int64_t query_count() const { return std::min(queries, mask_.masks.tokens - query_); }
  std::int64_t key_count() const { return std::min(keys, mask_.length - key_); }
  // The range of keys in the current tile of keys to which at least one of `count` queries attends. `i`: the index of
  // the first of these queries in the current tile of queries.
  depth_range attended_keys(std::int64_t i, std::int64_t count) const {
    return tile::attended_keys(mask_, query_ + i, count, key_, key_count());
  }

  /// Calls `body` for each chunk of the gradients' columns.
  template <class function> void for_chunks(function const& body) {
    for (column_ = 0; column_ < head_width_; column_ += columns) {
      padded_ = tile::padded_columns(std::min(columns, head_width_ - column_));
      body();
    }
  }

  /// Computes the probabilities of the tile of queries at `query` and the tile of keys at `key`, and the gradient of
  /// the scores. Then loads the columns from which dq, dk and dv are computed.
  void compute_probabilities(std::int64_t query, std::int64_t key) {
    query_ = query, key_ = key;
    for (std::int64_t chunk = 0; chunk < head_width_; chunk += columns) {
      auto const depth = std::min(columns, head_width_ - chunk);
      auto const padded = tile::padded_columns(depth);
      load_queries(chunk, depth);
      load_keys(chunk, depth);
      for (std::int64_t i = 0; i < query_count(); i += panel) {
        auto const panel_width = tile::panel_columns(query_count() - i);
        auto const multiply = [&](accumulate const* a, accumulate const* b, accumulate* c, auto const& store) {
          tile_gemm<transpose::no>(tile::padded_rows(attended_keys(i, panel).end), panel_width, same_depth{{0, depth}},
                                   a, padded, b + i, queries, c + i, queries, store);
        };
        if (chunk == 0) {
          multiply(k_tile_, q_transposed_, probabilities_, overwrite{});
          multiply(v_tile_, dy_transposed_, dscores_, overwrite{});
        } else {
          multiply(k_tile_, q_transposed_, probabilities_, add_to{});
          multiply(v_tile_, dy_transposed_, dscores_, add_to{});
        }
      }
    }
    for (std::int64_t i = 0; i < query_count(); i += panel) {
      auto const attended_end = attended_keys(i, panel).end;
      if (attended_end == 0) continue;
      auto const rows = tile::padded_rows(attended_end), panel_width = tile::panel_columns(query_count() - i);
      tile::mask_scores(mask_, query_ + i, key_, rows, probabilities_ + i, queries);
      for (std::int64_t row = 0; row < rows; ++row) {
        accumulate* const p = probabilities_ + row * queries + i;
        accumulate* const ds = dscores_ + row * queries + i;
        CONSTRAIN_SIMD
        for (std::int64_t j = 0; j < panel_width; ++j) {
          p[j] = math::exp_or_zero(p[j] - tile_logsumexp_[i + j]);
          ds[j] = p[j] * (ds[j] - tile_row_sums_[i + j]);
        }
      }
    }
    auto const depth = std::min(columns, head_width_ - column_);
    load_queries(column_, depth);
    load_keys(column_, depth);
  }

  /// dq += dscores^T k; `store` multiplies dq by 1 / sqrt(head width) later.
  void add_query_gradients() {
    tile_gemm<transpose::yes>(
        tile::padded_rows(query_count()), padded_,
        [this](std::int64_t row) { return attended_keys(row, register_tile<accumulate>::rows); }, dscores_, queries,
        k_tile_, padded_, dq_tile_, padded_, add_to{});
  }

  /// dv = probabilities dy and dk = dscores q for the current pair of tiles.
  void add_key_gradients() {
    auto const multiply = [&](accumulate const* a, accumulate const* b, accumulate* c) {
      tile_gemm<transpose::no>(
          tile::padded_rows(key_count()), padded_,
          [this](std::int64_t row) {
            // The queries of the current tile that attend to the keys of this register tile.
            auto const last = std::min<std::int64_t>(row + register_tile<accumulate>::rows, key_count()) - 1;
            auto const attending = mask_.queries(key_ + row, key_ + last);
            return depth_range{std::max<std::int64_t>(attending.begin - query_, 0),
                               std::min(attending.end - query_, query_count())};
          },
          a, queries, b, padded_, c, padded_, overwrite{});
    };
    multiply(probabilities_, dy_tile_, dv_tile_);
    multiply(dscores_, q_tile_, dk_tile_);
  }

  /// The contents of a tile: its first query or key, and the first column of the chunk; -1: nothing is loaded.
  struct tile_contents {
    std::int64_t first = -1, chunk = -1;
    friend bool operator==(tile_contents const&, tile_contents const&) = default;
  };

  /// Unless the current tile of queries is already loaded, loads this tile and the same rows of dy, logsumexp and
  /// row_sums, and transposes the tiles of q and dy. `chunk`: the first column; `depth`: the number of columns.
  void load_queries(std::int64_t chunk, std::int64_t depth) {
    if (query_tile_contents_ == tile_contents{query_, chunk}) return;
    query_tile_contents_ = {query_, chunk};
    auto const count = query_count(), rows = tile::padded_queries(count), padded = tile::padded_columns(depth);
    load(operands_.q, query_, count, chunk, depth, scale_, q_tile_, rows);
    load(operands_.dy, query_, count, chunk, depth, accumulate{1}, dy_tile_, rows);
    transpose_tile(q_tile_, padded, rows, padded, q_transposed_, queries);
    transpose_tile(dy_tile_, padded, rows, padded, dy_transposed_, queries);
    for (std::int64_t i = 0; i < rows; ++i) {
      tile_logsumexp_[i] = i < count ? operands_.logsumexp[query_ + i] : accumulate{};
      tile_row_sums_[i] = i < count ? operands_.row_sums[query_ + i] : accumulate{};
    }
  }

  /// Loads the current tile of keys and the same rows of v, unless both are already loaded. `chunk` and `depth`: as in
  /// `load_queries`.
  void load_keys(std::int64_t chunk, std::int64_t depth) {
    if (key_tile_contents_ == tile_contents{key_, chunk}) return;
    key_tile_contents_ = {key_, chunk};
    auto const rows = tile::padded_rows(key_count());
    load(operands_.k, key_, key_count(), chunk, depth, accumulate{1}, k_tile_, rows);
    load(operands_.v, key_, key_count(), chunk, depth, accumulate{1}, v_tile_, rows);
  }

  /// Loads rows [first, first + count) and columns [chunk, chunk + depth) of `from`, times `scale`. Pads the tile with
  /// zeros to `rows` rows and to a multiple of 16 columns.
  static void load(head_matrix<stored const> from, std::int64_t first, std::int64_t count, std::int64_t chunk,
                   std::int64_t depth, accumulate scale, accumulate* to, std::int64_t rows) {
    load_tile(from.data + first * from.stride + chunk, from.stride, count, depth, scale, to, rows,
              tile::padded_columns(depth));
  }

  void clear(accumulate* gradient, std::int64_t rows) { std::fill_n(gradient, rows * padded_, accumulate{}); }

  // Whether dk and dv have the type of the sums, so that they can hold the sums.
  static constexpr bool in_place = std::is_same_v<stored, accumulate>;

  /// Adds the current columns of a tile of dk or dv to the sums of keys [first, first + rows).
  void add(accumulate const* from, std::int64_t rows, head_matrix<accumulate> sums, std::int64_t first) {
    auto const width = std::min(columns, head_width_ - column_);
    accumulate* to = sums.data + first * sums.stride + column_;
    for (std::int64_t row = 0; row < rows; ++row, from += padded_, to += sums.stride) {
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < width; ++i) to[i] += from[i];
    }
  }

  /// Writes `from` (the current columns of a gradient), times `scale`, to tokens [first, first + rows) of `gradient`.
  /// `stride`: elements from one row of `from` to the next.
  void store(accumulate const* from, std::int64_t stride, std::int64_t rows, accumulate scale,
             head_matrix<stored> gradient, std::int64_t first) {
    auto const width = std::min(columns, head_width_ - column_);
    for (std::int64_t row = 0; row < rows; ++row, from += stride) {
      stored* const to = gradient.data + (first + row) * gradient.stride + column_;
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < width; ++i) to[i] = scale * from[i];
    }
  }

  attention_mask<std::int64_t> mask_;
  std::int64_t head_width_;
  flash_backward_operands<stored, accumulate> operands_;
  accumulate scale_;
  // First query, first key, first column and padded number of columns of the current tiles.
  std::int64_t query_ = 0, key_ = 0, column_ = 0, padded_ = 0;
  tile_contents query_tile_contents_, key_tile_contents_; // contents of the tiles of queries and of keys
  // q_tile_ and q_transposed_ are scaled by 1 / sqrt(head width).
  alignas(64) accumulate q_tile_[queries * columns], dy_tile_[queries * columns], dq_tile_[queries * columns];
  alignas(64) accumulate q_transposed_[columns * queries], dy_transposed_[columns * queries];
  alignas(64) accumulate k_tile_[keys * columns], v_tile_[keys * columns];
  alignas(64) accumulate dk_tile_[keys * columns], dv_tile_[keys * columns];
  alignas(64) accumulate probabilities_[keys * queries], dscores_[keys * queries];
  alignas(64) accumulate tile_logsumexp_[queries], tile_row_sums_[queries];
};

} // namespace constrain::detail
