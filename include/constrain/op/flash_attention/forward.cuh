#pragma once

#include "constrain/op/flash_attention/cuda_tiles.cuh"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The softmax of a strip's rows, whose scores arrive in tiles (Milakov and Gimelshein 2018). Scores are not yet scaled.
template <class real> struct online_softmax {
  real scale;                      // of the scores, as exponents of 2
  real row_max[2]{-limit, -limit}; // the largest score of each of this lane's rows
  real sum[2]{};                   // this lane's part of the sum of each row's exponentials

  static constexpr real limit = std::numeric_limits<real>::infinity();

  __device__ explicit online_softmax(real log2_scale) : scale(log2_scale) {}

  /// Turns a tile of scores into exponentials relative to the largest score so far, and scales `y`, the weighted sums
  /// of the tiles before, likewise.
  template <int keys, int columns> __device__ void add(strip<real, keys>& scores, strip<real, columns>& y) {
    real largest[2]{row_max[0], row_max[1]}, factor[2];
    scores.for_each([&](real x, int lower, int) { largest[lower] = x > largest[lower] ? x : largest[lower]; });
    for (int i = 0; i < 2; ++i) {
      largest[i] = over_row(largest[i], larger_of{});
      factor[i] = math::exp2((row_max[i] - largest[i]) * scale);
      row_max[i] = largest[i];
      sum[i] *= factor[i];
    }
    scores.for_each([&](real& x, int lower, int) {
      x = math::exp2(x * scale - row_max[lower] * scale);
      sum[lower] += x;
    });
    y.for_each([&](real& x, int lower, int) { x *= factor[lower]; });
  }
  /// The sum of the exponentials of a row, after the last tile.
  __device__ real total(int lower) const {
    return over_row(sum[lower], [](real a, real b) { return a + b; });
  }
};

} // namespace detail

// y = softmax(q k^T / sqrt(head width)) v, and the logsumexp of each query's scores (Dao 2023, algorithm 1). A block
// computes a tile of queries of one head, and loads the next keys, or values, while it multiplies.
template <class stored, class accumulate, int width>
static __global__ void __launch_bounds__(detail::flash_threads)
    flash_attention_kernel(detail::flash_call<accumulate> c, detail::flash_operand<stored const> q,
                           detail::flash_operand<stored const> k, detail::flash_operand<stored const> v,
                           detail::flash_operand<stored> y, accumulate* logsumexp) {
  using tile = shared_tile<stored, detail::flash_rows, width>;
  __shared__ tile q_tile, k_tile, v_tile;
  detail::flash_chunks<width> const chunks(c.head_width);
  auto const row = static_cast<int>(threadIdx.x) / 32 * 16; // this warp's first query in the tile
  auto const sequence = static_cast<int>(blockIdx.x) / c.heads, head = static_cast<int>(blockIdx.x) % c.heads;
  // With a causal mask, the last tiles take the longest, so they begin first.
  auto const first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * detail::flash_rows;
  auto const last = c.causal && first + detail::flash_rows < c.tokens ? first + detail::flash_rows : c.tokens;

  auto const begin_scores = [&](int key, int turn) {
    auto const column = chunks.column(turn);
    if (key == 0 || chunks.count > 1)
      begin_load<detail::flash_threads>(q_tile, q.window(c, sequence, head, first, column));
    begin_load<detail::flash_threads>(k_tile, k.window(c, sequence, head / c.group, key, column));
    ptx::commit_copies();
  };
  auto const all_have_arrived = [] {
    ptx::wait_for_copies<0>();
    __syncthreads();
  };

  tile_rows<tile, for_tensor_cores<stored>> queries(q_tile, row);
  detail::online_softmax<accumulate> softmax(c.log2_scale());
  strip<accumulate, width> sums;
  sums.clear();
  begin_scores(0, 0);
  for (int key = 0; key < last; key += tile::rows) {
    strip<accumulate, tile::rows> scores;
    scores.clear();
    for (int turn = 0; turn < chunks.count; ++turn) {
      all_have_arrived();
      if (turn == chunks.count - 1) {
        begin_load<detail::flash_threads>(v_tile, v.window(c, sequence, head / c.group, key, chunks.own_column()));
        ptx::commit_copies();
      }
      if (key == 0 || chunks.count > 1) queries.take();
      multiply_transposed(scores, queries, k_tile);
      if (turn == chunks.count - 1) continue;
      __syncthreads();
      begin_scores(key, turn + 1);
    }
    if (key + tile::rows > (c.causal ? first + row : c.tokens))
      scores.for_each([&](accumulate& x, int lower, int column) {
        if (!c.attends(first + row + scores.row(lower), key + column)) x = -softmax.limit;
      });
    softmax.add(scores, sums);
    all_have_arrived();
    if (key + tile::rows < last) begin_scores(key + tile::rows, 0);
    multiply(sums, scores, v_tile);
  }

  accumulate factor[2];
  for (int lower = 0; lower < 2; ++lower) {
    auto const total = softmax.total(lower);
    factor[lower] = 1 / total;
    auto const query = first + row + sums.row(lower);
    if (chunks.own == 0 && threadIdx.x % 4 == 0 && query < c.tokens)
      logsumexp[static_cast<std::int64_t>(blockIdx.x) * c.tokens + query] =
          softmax.row_max[lower] * c.scale + math::log(total);
  }
  // This warp alone reads its rows of q_tile.
  __syncwarp();
  sums.write(q_tile, row, factor);
  __syncwarp();
  store_rows(q_tile, row, y.window(c, sequence, head, first, chunks.own_column()));
}

} // namespace constrain
