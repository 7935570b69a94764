#pragma once

#include "constrain/op/flash_attention/cuda_tiles.cuh"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The softmax of a strip's rows, whose scores arrive in tiles (Milakov and Gimelshein 2018). Scores are not yet
/// scaled.
template <class real, int rows> struct online_softmax {
  static constexpr int lines = rows / 8;

  real scale;          // of the scores, as exponents of 2
  real row_max[lines]; // the largest score of each of this lane's rows
  real sum[lines];     // this lane's part of the sum of each row's exponentials

  __device__ explicit online_softmax(real log2_scale) : scale(log2_scale) {
    CT_UNROLL
    for (int i = 0; i < lines; ++i) row_max[i] = -math::infinity<real>, sum[i] = 0;
  }

  /// Turns a tile of scores into exponentials relative to the largest score so far, and scales `y`, the weighted sums
  /// of the tiles before, likewise.
  template <int keys, int columns> __device__ void add(strip<real, rows, keys>& scores, strip<real, rows, columns>& y) {
    real largest[lines], factor[lines];
    CT_UNROLL
    for (int i = 0; i < lines; ++i) largest[i] = row_max[i];
    scores.for_each([&](real x, int line, int) { largest[line] = math::larger(largest[line], x); });
    CT_UNROLL
    for (int i = 0; i < lines; ++i) {
      largest[i] = over_row(largest[i], [](real a, real b) { return math::larger(a, b); });
      factor[i] = math::exp2((row_max[i] - largest[i]) * scale);
      row_max[i] = largest[i];
      sum[i] *= factor[i];
    }
    scores.for_each([&](real& x, int line, int) {
      x = math::exp2(x * scale - row_max[line] * scale);
      sum[line] += x;
    });
    y.for_each([&](real& x, int line, int) { x *= factor[line]; });
  }
  /// The sum of the exponentials of a row, after the last tile.
  __device__ real total(int line) const {
    return over_row(sum[line], [](real a, real b) { return a + b; });
  }
};

} // namespace detail

// y = softmax(q k^T / sqrt(head width)) v, and the logsumexp of each query's scores (Dao 2023, algorithm 1). A block
// computes a tile of queries of one head, and loads the next keys, or values, while it multiplies.
template <class stored, class accumulate, int width>
static __global__ void __launch_bounds__(detail::flash_threads, 2)
    flash_attention_kernel(detail::flash_call<accumulate> c, detail::flash_operand<stored const> q,
                           detail::flash_operand<stored const> k, detail::flash_operand<stored const> v,
                           detail::flash_operand<stored> y, accumulate* logsumexp) {
  using tiling = detail::flash_tiling<stored, width>;
  constexpr int keys = tiling::keys, warp_rows = tiling::warp_rows;
  using query_tile = shared_tile<stored, tiling::rows, width>;
  using key_tile = shared_tile<stored, keys, width>;
  __shared__ query_tile q_tile;
  __shared__ key_tile k_tile, v_tile;
  detail::flash_chunks<width> const chunks(c.head_width);
  auto const row = static_cast<int>(threadIdx.x) / 32 * warp_rows; // this warp's first query in the tile
  auto const sequence = static_cast<int>(blockIdx.x) / c.heads, head = static_cast<int>(blockIdx.x) % c.heads;
  // With a causal mask, the last tiles take the longest, so they begin first.
  auto const first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * tiling::rows;
  auto const last = c.causal && first + tiling::rows < c.tokens ? first + tiling::rows : c.tokens;

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

  tile_rows<query_tile, warp_rows> queries(q_tile, row);
  detail::online_softmax<accumulate, warp_rows> softmax(c.log2_scale());
  strip<accumulate, warp_rows, width> sums;
  sums.clear();
  begin_scores(0, 0);
  for (int key = 0; key < last; key += keys) {
    strip<accumulate, warp_rows, keys> scores;
    scores.clear();
    for (int turn = 0; turn < chunks.count; ++turn) {
      all_have_arrived();
      if (turn == chunks.count - 1) {
        begin_load<detail::flash_threads>(v_tile, v.window(c, sequence, head / c.group, key, chunks.own_column()));
        ptx::commit_copies();
      }
      multiply_transposed(scores, queries, k_tile);
      if (turn == chunks.count - 1) continue;
      __syncthreads();
      begin_scores(key, turn + 1);
    }
    if (key + keys > (c.causal ? first + row : c.tokens))
      scores.for_each([&](accumulate& x, int line, int column) {
        if (!c.attends(first + row + scores.row(line), key + column)) x = -math::infinity<accumulate>;
      });
    softmax.add(scores, sums);
    all_have_arrived();
    if (key + keys < last) begin_scores(key + keys, 0);
    multiply(sums, scores, v_tile);
  }

  accumulate factor[sums.lines];
  CT_UNROLL
  for (int line = 0; line < sums.lines; ++line) {
    auto const total = softmax.total(line);
    factor[line] = 1 / total;
    auto const query = first + row + sums.row(line);
    if (chunks.own == 0 && threadIdx.x % 4 == 0 && query < c.tokens)
      logsumexp[static_cast<std::int64_t>(blockIdx.x) * c.tokens + query] =
          softmax.row_max[line] * c.scale + math::log(total);
  }
  // This warp alone reads its rows of q_tile.
  __syncwarp();
  sums.write(q_tile, row, factor);
  __syncwarp();
  store_rows<warp_rows>(q_tile, row, y.window(c, sequence, head, first, chunks.own_column()));
}

} // namespace constrain
