#pragma once

#include "constrain/op/flash_attention/cuda_tiles.cuh"

#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The softmax of a strip's rows, whose scores arrive in tiles (Milakov & Gimelshein 2018). The scores are not yet
/// scaled. Exponentials are relative to one reference per row. The reference moves to the row's maximum score so far
/// only if this maximum exceeds the reference, after scaling, by more than `rescale_threshold`, so most tiles do not
/// rescale the sums (the conditional rescaling of FlashAttention-4, Zadouri et al. 2026).
template <class real, int rows> struct online_softmax {
  static constexpr int lines = rows / 8; // rows of which a lane holds scores
  // The initial reference. It and its product with `scale` are finite, so that the exponential of a score of -infinity
  // is 0, not NaN, even if all scores so far are -infinity.
  static constexpr real lowest = std::numeric_limits<real>::lowest() / 2;
  static constexpr real rescale_threshold = 8; // exponent of 2; 2^8 is far below the largest finite fp16 value

  real scale;            // multiplies scores, which become exponents of 2
  real reference[lines]; // one per row of this lane
  real sum[lines];       // this lane's partial sum of each row's exponentials

  __device__ explicit online_softmax(real log2_scale) : scale(log2_scale) {
    CT_UNROLL
    for (int i = 0; i < lines; ++i) reference[i] = lowest, sum[i] = 0;
  }

  /// Turns a tile of scores into exponentials relative to the reference, and adds them to `sum`. If the reference
  /// moves, rescales `sum` and `y`, the weighted sums of the earlier tiles.
  template <int keys, int columns> __device__ void add(strip<real, rows, keys>& scores, strip<real, rows, columns>& y) {
    real tile_max[lines];
    CT_UNROLL
    for (int i = 0; i < lines; ++i) tile_max[i] = scores.values[i / 2][0][i % 2 * 2];
    scores.for_each([&](real x, int line, int) { tile_max[line] = math::larger(tile_max[line], x); });
    bool moves = false;
    CT_UNROLL
    for (int i = 0; i < lines; ++i) moves |= exceeds(i, tile_max[i]);
    if (__any_sync(ptx::twin::all_lanes, moves)) move(tile_max, y);
    real shift[lines];
    CT_UNROLL
    for (int i = 0; i < lines; ++i) shift[i] = reference[i] * scale;
    scores.for_each([&](real& x, int line, int) {
      x = math::exp2(x * scale - shift[line]);
      sum[line] += x;
    });
  }
  /// The sum of the exponentials of a row, after the last tile. All lanes of the warp must take part.
  __device__ real total(int line) const {
    return over_row(sum[line], [](real a, real b) { return a + b; });
  }

private:
  /// Whether a score is so large that the reference of its row must move.
  __device__ bool exceeds(int line, real score) const { return (score - reference[line]) * scale > rescale_threshold; }
  /// Moves the reference of each row with a score that exceeds it, after scaling, by more than `rescale_threshold`, and
  /// rescales `sum` and `y`.
  template <int columns> __device__ void move(real const (&tile_max)[lines], strip<real, rows, columns>& y) {
    real factor[lines];
    CT_UNROLL
    for (int i = 0; i < lines; ++i) {
      auto const row_max = over_row(tile_max[i], [](real a, real b) { return math::larger(a, b); });
      bool const moves = exceeds(i, row_max);
      factor[i] = moves ? math::exp2((reference[i] - row_max) * scale) : real(1);
      if (moves) reference[i] = row_max;
      sum[i] *= factor[i];
    }
    y.for_each([&](real& x, int line, int) { x *= factor[line]; });
  }
};

/// The operands of the kernel of flash attention.
template <class stored, class accumulate> struct flash_operands {
  flash_operand<stored const> q, k, v;
  flash_operand<stored> y;
  accumulate* logsumexp; // [sequences, heads, tokens]
};

/// A block's work: one chunk of columns (flash_chunks) of the results of a tile of queries of one head.
template <class stored, class accumulate, int width> class flash_block {
  using tiling = flash_tiling<stored, width>;
  static constexpr int warp_rows = tiling::warp_rows;
  using scores_strip = strip<accumulate, warp_rows, tiling::keys>;
  using query_tile = shared_tile<stored, tiling::rows, width>;
  using key_tile = shared_tile<stored, tiling::keys, width>;

public:
  /// The block's shared memory.
  struct memory {
    query_tile q;
    struct {
      key_tile k, v;
    } stages[tiling::stages];
  };

  __device__ flash_block(flash_call<accumulate> const& c, flash_operands<stored, accumulate> const& x, memory& shared)
      : c_(c), x_(x), shared_(shared), chunks_(c.head_width), sequence_(static_cast<int>(blockIdx.x) / c.heads),
        head_(static_cast<int>(blockIdx.x) % c.heads), row_(static_cast<int>(threadIdx.x / 32) * warp_rows),
        mask_(c.masks.for_sequence(sequence_)),
        // With a causal mask, the last tiles usually take the longest, so their blocks start first.
        first_(static_cast<int>(gridDim.y - 1 - blockIdx.y) * tiling::rows),
        any_range_(mask_.keys(first_ + row_, c.last_of(first_ + row_, warp_rows))),
        common_range_(mask_.common_keys(first_ + row_, c.last_of(first_ + row_, warp_rows))), softmax_(c.log2_scale()),
        k_(x.k.head_view(c, sequence_, head_ / c.group, mask_.length)),
        v_(x.v.head_view(c, sequence_, head_ / c.group, mask_.length)) {}

  /// Computes and stores the results of the block's queries.
  __device__ void run() {
    auto const keys = mask_.keys(first_, c_.last_of(first_, tiling::rows));
    sums_.clear();
    if constexpr (tiling::stages == 2) add_in_stages(keys);
    else
      for (int key = keys.begin; key < keys.end; key += tiling::keys) add_chunks(key, keys);
    store();
  }

private:
  using queries = tile_rows<query_tile, warp_rows>;

  /// Adds the contributions of all keys to which the block's queries attend. The next pair of tiles is loaded while the
  /// block multiplies the current pair. The queries stay in registers.
  __device__ void add_in_stages(token_range<int> const& keys) {
    if (keys.begin >= keys.end) return;
    begin_queries(0);
    begin_stage(0, keys.begin);
    wait_for_all();
    held_rows<query_tile, warp_rows> query_rows;
    query_rows.load(queries(shared_.q, row_));
    int stage = 0;
    CT_KEEP_LOOP
    for (int key = keys.begin; key < keys.end; key += tiling::keys) {
      if (key + tiling::keys < keys.end) begin_stage(1 - stage, key + tiling::keys);
      if (any_range_.overlaps(key, tiling::keys)) {
        auto& tiles = shared_.stages[stage];
        scores_strip scores;
        multiply_transposed(scores, query_rows, tiles.k, 0, [](int, int) { return strip_block<accumulate>(); });
        mask(scores, key);
        softmax_.add(scores, sums_);
        multiply(sums_, scores, tiles.v);
      }
      wait_for_all();
      stage = 1 - stage;
    }
  }
  /// Begins to load the tiles of keys and values from token `key` on into stage `stage`.
  __device__ void begin_stage(int stage, int key) {
    k_.begin(shared_.stages[stage].k, key, 0);
    v_.begin(shared_.stages[stage].v, key, 0);
    ptx::commit_copies();
  }

  /// Adds the contributions of a tile of keys for a head that may have several chunks of columns.
  __device__ void add_chunks(int key, token_range<int> const& keys) {
    if (key == keys.begin) begin_scores(key, 0, true);
    scores_strip scores;
    compute_scores(scores, key);
    mask(scores, key);
    softmax_.add(scores, sums_);
    wait_for_all();
    if (key + tiling::keys < keys.end) begin_scores(key + tiling::keys, 0, chunks_.count > 1);
    multiply(sums_, scores, shared_.stages[0].v);
  }
  /// Begins to load the columns of the queries from `column` on.
  __device__ void begin_queries(int column) {
    tile_source<flash_threads, query_tile>(x_.q.head_view(c_, sequence_, head_, c_.tokens))
        .begin(shared_.q, first_, column);
  }
  /// Begins to load a chunk of the columns of the keys, and of the queries if they change.
  __device__ void begin_scores(int key, int chunk, bool queries_change) {
    auto const column = chunks_.column(chunk);
    if (queries_change) begin_queries(column);
    k_.begin(shared_.stages[0].k, key, column);
    ptx::commit_copies();
  }
  /// Waits until all started copies are complete, and until no warp reads the previous tiles.
  __device__ void wait_for_all() {
    ptx::wait_for_copies<0>();
    __syncthreads();
  }
  /// Computes the scores of a tile of keys, and begins to load the values. `begin_scores` must have begun to load chunk
  /// 0 of the keys and, unless it is already loaded, of the queries.
  __device__ void compute_scores(scores_strip& scores, int key) {
    scores.clear();
    for (int chunk = 0; chunk < chunks_.count; ++chunk) {
      wait_for_all();
      if (chunk == chunks_.count - 1) {
        v_.begin(shared_.stages[0].v, key, chunks_.result_column());
        ptx::commit_copies();
      }
      multiply_transposed(scores, queries(shared_.q, row_), shared_.stages[0].k);
      if (chunk == chunks_.count - 1) continue;
      __syncthreads();
      begin_scores(key, chunk + 1, true);
    }
  }
  /// Sets scores to -infinity where a query does not attend to a key.
  __device__ void mask(scores_strip& scores, int key) const {
    if (common_range_.contains(key, tiling::keys)) return;
    for_each_masked<false>(scores, mask_, first_ + row_, key,
                           [](accumulate& x, int, int) { x = -math::infinity<accumulate>; });
  }
  /// Stores the results of this warp's queries and, in the blocks of the first chunk, the logsumexp of the queries.
  __device__ void store() {
    constexpr int lines = warp_rows / 8;
    accumulate factor[lines];
    CT_UNROLL
    for (int line = 0; line < lines; ++line) {
      auto const total = softmax_.total(line);
      auto const query = first_ + row_ + sums_.row(line);
      bool const masked = mask_.is_fully_masked(query);
      factor[line] = masked ? accumulate(0) : 1 / total;
      if (chunks_.result_chunk == 0 && threadIdx.x % 4 == 0 && query < c_.tokens)
        x_.logsumexp[static_cast<std::int64_t>(blockIdx.x) * c_.tokens + query] =
            masked ? accumulate(0) : softmax_.reference[line] * c_.scale + math::log(total);
    }
    sums_.for_each([&](accumulate& x, int line, int) { x *= factor[line]; });
    // Only this warp reads its rows of the queries.
    __syncwarp();
    sums_.write(shared_.q, row_);
    __syncwarp();
    store_rows<warp_rows>(shared_.q, row_, x_.y.view(c_, sequence_, head_, first_, chunks_.result_column(), c_.tokens));
  }

  flash_call<accumulate> const& c_;
  flash_operands<stored, accumulate> const& x_;
  memory& shared_;
  flash_chunks<width, tiling::is_narrow> chunks_;
  int sequence_, head_, row_; // row_: this warp's first query in the tile
  attention_mask<int> mask_;
  int first_;                                 // the tile's first query
  token_range<int> any_range_, common_range_; // the keys to which some, and all, of this warp's queries attend
  online_softmax<accumulate, warp_rows> softmax_;
  strip<accumulate, warp_rows, width> sums_; // weighted sums of the values
  tile_source<flash_threads, key_tile> k_, v_;
};

} // namespace detail

// y = softmax(q k^T / sqrt(head width)) v, and the logsumexp of each query's scaled scores (Dao 2023, algorithm 1).
template <class stored, class accumulate, int width>
static __global__ void __launch_bounds__(detail::flash_threads, 2)
    flash_attention_kernel(detail::flash_call<accumulate> c, detail::flash_operands<stored, accumulate> x) {
  using block = detail::flash_block<stored, accumulate, width>;
  __shared__ typename block::memory shared;
  block(c, x, shared).run();
}

} // namespace constrain
