#pragma once

#include "constrain/op/attention/head.hpp"
#include "constrain/op/flash_attention/tiles.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// One thread's work on the gradients of one head (Dao 2023, algorithm 2). For each pair of a tile of queries and a
/// tile of keys, it recomputes the probabilities, computes the gradient of the scores, and adds the pair's
/// contributions to dq, dk and dv. Heads wider than `columns` are split into chunks of columns.
template <class stored, class accumulate> class flash_backward : flash_tile<accumulate> {
  using tile = flash_tile<accumulate>;
  using tile::columns, tile::panel;

public:
  using tile::keys;
  static constexpr std::int64_t queries = 96; // of a tile
  static_assert(queries % panel == 0 && keys <= queries);

  /// For head `h`. `logsumexp` (of the scores of a query) and `row_sums` (of dy * y of a query) have one element per
  /// query of the head.
  flash_backward(attention_head const& h, bool causal, stored const* dy, stored const* qkv, accumulate const* logsumexp,
                 accumulate const* row_sums, stored* dqkv)
      : h_(h), causal_(causal), dy_(dy + h.y), qkv_(qkv + h.qkv), logsumexp_(logsumexp), row_sums_(row_sums),
        dqkv_(dqkv + h.qkv), scale_(1 / math::sqrt(static_cast<accumulate>(h.head_width))) {}

  /// Computes dq, dk and dv of the head. dk and dv are sums over tiles of queries: they are summed in dqkv, or in
  /// `scratch` [tokens, 2 head width] if the elements of dqkv are narrower than `accumulate`.
  void all_gradients(accumulate* scratch) {
    auto const sums = key_sums(scratch);
    for (std::int64_t key = 0; key < h_.tokens; ++key) {
      std::fill_n(sums.dk + key * sums.step, h_.head_width, accumulate{});
      std::fill_n(sums.dv + key * sums.step, h_.head_width, accumulate{});
    }
    for_chunks([&] {
      for (std::int64_t query = 0; query < h_.tokens; query += queries) {
        clear(dq_tile_, queries);
        for (std::int64_t key = 0; key < limit(query); key += keys) {
          meet(query, key);
          add_query_gradients();
          add_key_gradients();
          add(dk_tile_, key_count(), sums.dk + key * sums.step + column_, sums.step);
          add(dv_tile_, key_count(), sums.dv + key * sums.step + column_, sums.step);
        }
        store(dq_tile_, padded_, query_count(), scale_, 0, query_);
      }
      if constexpr (!in_place) {
        store(sums.dk + column_, sums.step, h_.tokens, accumulate{1}, h_.width, 0);
        store(sums.dv + column_, sums.step, h_.tokens, accumulate{1}, 2 * h_.width, 0);
      }
    });
  }

  /// Computes dq, dk and dv of a head of at most `keys` tokens, which takes only one tile of queries and one of keys.
  void all_gradients_of_one_tile() {
    for_chunks([&] {
      clear(dq_tile_, queries);
      meet(0, 0);
      add_query_gradients();
      add_key_gradients();
      store(dq_tile_, padded_, query_count(), scale_, 0, 0);
      store(dk_tile_, padded_, key_count(), accumulate{1}, h_.width, 0);
      store(dv_tile_, padded_, key_count(), accumulate{1}, 2 * h_.width, 0);
    });
  }

private:
  std::int64_t query_count() const { return std::min(queries, h_.tokens - query_); }
  std::int64_t key_count() const { return std::min(keys, h_.tokens - key_); }
  // Number of keys that the last query of the tile beginning at `query` attends to.
  std::int64_t limit(std::int64_t query) const { return causal_ ? std::min(h_.tokens, query + queries) : h_.tokens; }
  // Number of keys of the current tile that any query of the panel beginning at row i of the tile attends to.
  std::int64_t seen(std::int64_t i) const { return tile::seen(causal_, query_ + i, panel, key_, key_count()); }

  /// Calls `body` for each chunk of the gradients' columns.
  template <class function> void for_chunks(function const& body) {
    for (column_ = 0; column_ < h_.head_width; column_ += columns) {
      padded_ = tile::padded_columns(std::min(columns, h_.head_width - column_));
      body();
    }
  }

  /// Computes the probabilities of the tile of queries at `query` and the tile of keys at `key`, and the gradient of
  /// their scores. Then loads the columns from which dq, dk and dv are computed.
  void meet(std::int64_t query, std::int64_t key) {
    query_ = query, key_ = key;
    for (std::int64_t chunk = 0; chunk < h_.head_width; chunk += columns) {
      auto const depth = std::min(columns, h_.head_width - chunk);
      auto const padded = tile::padded_columns(depth);
      load_queries(chunk, depth);
      load_keys(chunk, depth);
      for (std::int64_t i = 0; i < query_count(); i += panel) {
        auto const across = tile::panel_columns(query_count() - i);
        auto const multiply = [&](accumulate const* a, accumulate const* b, accumulate* c, auto const& store) {
          tile_gemm<transpose::no>(tile::padded_rows(seen(i)), across, same_depth{{0, depth}}, a, padded, b + i,
                                   queries, c + i, queries, store);
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
      auto const rows = tile::padded_rows(seen(i)), across = tile::panel_columns(query_count() - i);
      if (causal_) tile::mask(query_ + i, key_, rows, probabilities_ + i, queries);
      for (std::int64_t row = 0; row < rows; ++row) {
        accumulate* const p = probabilities_ + row * queries + i;
        accumulate* const ds = dscores_ + row * queries + i;
        CONSTRAIN_SIMD
        for (std::int64_t j = 0; j < across; ++j) {
          p[j] = math::exp_or_zero(p[j] - tile_logsumexp_[i + j]);
          ds[j] = p[j] * (ds[j] - tile_row_sums_[i + j]);
        }
      }
    }
    auto const depth = std::min(columns, h_.head_width - column_);
    load_queries(column_, depth);
    load_keys(column_, depth);
  }

  /// dq += dscores^T k; `store` multiplies dq by 1 / sqrt(head width) later.
  void add_query_gradients() {
    tile_gemm<transpose::yes>(
        tile::padded_rows(query_count()), padded_,
        [this](std::int64_t row) {
          return depth_range{0, tile::seen(causal_, query_ + row, register_tile<accumulate>::rows, key_, key_count())};
        },
        dscores_, queries, k_tile_, padded_, dq_tile_, padded_, add_to{});
  }

  /// dv = probabilities dy, dk = dscores q, of the current pair of tiles.
  void add_key_gradients() {
    auto const multiply = [&](accumulate const* a, accumulate const* b, accumulate* c) {
      tile_gemm<transpose::no>(
          tile::padded_rows(key_count()), padded_,
          [this](std::int64_t row) {
            // The first query of the tile that attends to key `row` of the tile.
            auto const first = causal_ ? std::max<std::int64_t>(0, key_ + row - query_) : 0;
            return depth_range{first, query_count()};
          },
          a, queries, b, padded_, c, padded_, overwrite{});
    };
    multiply(probabilities_, dy_tile_, dv_tile_);
    multiply(dscores_, q_tile_, dk_tile_);
  }

  /// What a loaded tile holds: its first query or key, and the first column of the chunk; -1: nothing yet.
  struct place {
    std::int64_t first = -1, chunk = -1;
    friend bool operator==(place const&, place const&) = default;
  };

  /// Loads the current tile of queries, the same rows of dy, and both transposed, unless they are loaded already.
  void load_queries(std::int64_t chunk, std::int64_t depth) {
    if (query_at_ == place{query_, chunk}) return;
    query_at_ = {query_, chunk};
    auto const count = query_count(), rows = tile::padded_queries(count), padded = tile::padded_columns(depth);
    load_tile(qkv_ + query_ * h_.stride + chunk, h_.stride, count, depth, scale_, q_tile_, rows, padded);
    load_tile(dy_ + query_ * h_.width + chunk, h_.width, count, depth, accumulate{1}, dy_tile_, rows, padded);
    transpose_tile(q_tile_, padded, rows, padded, q_transposed_, queries);
    transpose_tile(dy_tile_, padded, rows, padded, dy_transposed_, queries);
    for (std::int64_t i = 0; i < rows; ++i) {
      tile_logsumexp_[i] = i < count ? logsumexp_[query_ + i] : accumulate{};
      tile_row_sums_[i] = i < count ? row_sums_[query_ + i] : accumulate{};
    }
  }

  /// Loads the current tile of keys and the tile of their values, unless they are loaded already.
  void load_keys(std::int64_t chunk, std::int64_t depth) {
    if (key_at_ == place{key_, chunk}) return;
    key_at_ = {key_, chunk};
    auto const rows = tile::padded_rows(key_count()), padded = tile::padded_columns(depth);
    stored const* const from = qkv_ + key_ * h_.stride + chunk;
    load_tile(from + h_.width, h_.stride, key_count(), depth, accumulate{1}, k_tile_, rows, padded);
    load_tile(from + 2 * h_.width, h_.stride, key_count(), depth, accumulate{1}, v_tile_, rows, padded);
  }

  void clear(accumulate* gradient, std::int64_t rows) { std::fill_n(gradient, rows * padded_, accumulate{}); }

  // Whether the elements of dqkv are precise enough to sum dk and dv in dqkv.
  static constexpr bool in_place = std::is_same_v<stored, accumulate>;

  struct sums_of_keys {
    accumulate *dk, *dv;
    std::int64_t step; // elements from one key to the next
  };
  /// The memory in which dk and dv are summed.
  sums_of_keys key_sums(accumulate* scratch) const {
    if constexpr (in_place) return {dqkv_ + h_.width, dqkv_ + 2 * h_.width, h_.stride};
    else return {scratch, scratch + h_.head_width, 2 * h_.head_width};
  }

  /// Adds the current columns of a tile to the sums of dk or dv.
  void add(accumulate const* from, std::int64_t rows, accumulate* to, std::int64_t step) {
    auto const width = std::min(columns, h_.head_width - column_);
    for (std::int64_t row = 0; row < rows; ++row, from += padded_, to += step) {
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < width; ++i) to[i] += from[i];
    }
  }

  /// Writes the current columns of a gradient, times `scale`, to `rows` tokens of dqkv from token `first` on. `part`:
  /// offset of the queries, keys or values within a token. `step`: elements between rows of `from`.
  void store(accumulate const* from, std::int64_t step, std::int64_t rows, accumulate scale, std::int64_t part,
             std::int64_t first) {
    auto const width = std::min(columns, h_.head_width - column_);
    for (std::int64_t row = 0; row < rows; ++row, from += step) {
      stored* const to = dqkv_ + part + (first + row) * h_.stride + column_;
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < width; ++i) to[i] = scale * from[i];
    }
  }

  attention_head const& h_;
  bool causal_;
  stored const *dy_, *qkv_;
  accumulate const *logsumexp_, *row_sums_;
  stored* dqkv_;
  accumulate scale_;
  // Of the current tiles: first query, first key, first column, padded number of columns.
  std::int64_t query_ = 0, key_ = 0, column_ = 0, padded_ = 0;
  place query_at_, key_at_; // what the tiles of queries and of keys hold
  // q_tile_ and q_transposed_ are scaled by 1 / sqrt(head width).
  alignas(64) accumulate q_tile_[queries * columns], dy_tile_[queries * columns], dq_tile_[queries * columns];
  alignas(64) accumulate q_transposed_[columns * queries], dy_transposed_[columns * queries];
  alignas(64) accumulate k_tile_[keys * columns], v_tile_[keys * columns];
  alignas(64) accumulate dk_tile_[keys * columns], dv_tile_[keys * columns];
  alignas(64) accumulate probabilities_[keys * queries], dscores_[keys * queries];
  alignas(64) accumulate tile_logsumexp_[queries], tile_row_sums_[queries];
};

} // namespace constrain::detail
