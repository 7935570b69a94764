#pragma once

#include "constrain/op/flash_attention/cuda_tiles.cuh"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The operands of the kernels of the gradient of flash attention.
template <class stored, class accumulate> struct flash_gradient_operands {
  flash_operand<stored const> dy, q, k, v, y;
  flash_operand<stored> dq, dk, dv;
  accumulate const* logsumexp; // [sequences, heads, tokens]
  accumulate* row_sums;        // [sequences, heads, tokens]: sum(dy * y) of each query
};

/// The shared memory of a block that computes gradients of a tile of rows. The kernels for dq compute the gradients of
/// queries: `rows` are queries, and `columns` are keys. The kernels for dk and dv compute those of keys, and the roles
/// are swapped.
template <class stored, int width> struct flash_gradient_tiles {
  static constexpr int columns = 32; // rows of the tiles in `columns`
  // Narrow tiles leave room for two stages: the next tiles arrive while the block multiplies the current ones.
  static constexpr int stages = width * static_cast<int>(sizeof(stored)) < 256 ? 2 : 1;
  static constexpr bool in_registers = stages == 2; // whether the warps hold their rows in registers

  shared_tile<stored, flash_rows, width> rows[2];         // q and dy, or k and v
  shared_tile<stored, columns, width> inner[stages][2]; // k and v, or q and dy
};

/// sum(dy * y) over a head's columns, for the queries of this lane's rows.
template <class stored, class accumulate>
__device__ void sum_of_rows(matrix_window<stored const> const& dy, matrix_window<stored const> const& y, int first,
                            accumulate (&sums)[2]) {
  // Each row has two lanes, and each lane every other unit of 16 bytes, or of as many elements.
  constexpr int in_unit = 16 / static_cast<int>(sizeof(stored));
  int const row = first + static_cast<int>(threadIdx.x % 32) / 2;
  accumulate sum = 0;
  for (int unit = static_cast<int>(threadIdx.x % 2); row < dy.rows && unit * in_unit < dy.columns; unit += 2) {
    auto const* const left = dy.data + row * dy.stride + unit * in_unit;
    auto const* const right = y.data + row * y.stride + unit * in_unit;
    int const left_over = dy.columns - unit * in_unit;
    if (dy.aligned) {
      auto const a = *reinterpret_cast<uint4 const*>(left), b = *reinterpret_cast<uint4 const*>(right);
      auto const *x = reinterpret_cast<stored const*>(&a), *z = reinterpret_cast<stored const*>(&b);
CT_UNROLL
      for (int i = 0; i < in_unit; ++i) sum += accumulate(x[i]) * accumulate(z[i]);
    } else
      for (int i = 0; i < in_unit && i < left_over; ++i) sum += accumulate(left[i]) * accumulate(right[i]);
  }
  sum += __shfl_xor_sync(ptx::twin::all_lanes, sum, 1);
  int const g = static_cast<int>(threadIdx.x % 32) / 4;
  for (int lower = 0; lower < 2; ++lower)
    sums[lower] = __shfl_sync(ptx::twin::all_lanes, sum, 2 * (g + 8 * lower));
}

} // namespace detail

// The gradients of flash attention (Dao 2023, algorithm 2), without atomic additions: each block computes complete rows
// of its results. `of_keys`: dk and dv of a tile of keys, summed over the query heads that share them, in the order of
// these heads; otherwise dq of a tile of queries, and the sums of dy y of its queries.
template <bool of_keys, class stored, class accumulate, int width>
static __global__ void __launch_bounds__(detail::flash_threads)
    flash_gradient_kernel(detail::flash_call<accumulate> c, detail::flash_gradient_operands<stored, accumulate> x) {
  using tiles = detail::flash_gradient_tiles<stored, width>;
  __shared__ tiles shared;
  detail::flash_chunks<width> const chunks(c.head_width);
  auto const row = static_cast<int>(threadIdx.x) / 32 * 16; // this warp's first row in the tile
  int const heads = of_keys ? c.heads / c.group : c.heads;
  auto const sequence = static_cast<int>(blockIdx.x) / heads, head = static_cast<int>(blockIdx.x) % heads;
  int const first = static_cast<int>(of_keys ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * detail::flash_rows;
  // The inner tokens: queries that attend to this tile's keys, or keys to which this tile's queries attend.
  int const from = of_keys && c.causal ? first : 0;
  int const to = !of_keys && c.causal && first + detail::flash_rows < c.tokens ? first + detail::flash_rows : c.tokens;
  int const inner_tiles = (to - from + tiles::columns - 1) / tiles::columns;
  int const steps = inner_tiles * chunks.count * (of_keys ? c.group : 1);

  // A step reads one chunk of the columns of one pair of tiles; pairs of one query head follow one another.
  auto const turn_of = [&](int step) { return step % chunks.count; };
  auto const token_of = [&](int step) { return from + step / chunks.count % inner_tiles * tiles::columns; };
  auto const query_head_of = [&](int step) {
    return of_keys ? head * c.group + step / chunks.count / inner_tiles : head;
  };
  auto const load = [&](auto& tile, auto const& operand, int which_head, int token, int column) {
    begin_load<detail::flash_threads>(tile, operand.window(c, sequence, which_head, token, column));
  };
  auto const begin_step = [&](int step) {
    auto const column = chunks.column(turn_of(step));
    auto& inner = shared.inner[step % tiles::stages];
    auto& rows = shared.rows;
    bool const rows_change = step == 0 || chunks.count > 1;
    if constexpr (of_keys) {
      if (rows_change) load(rows[0], x.k, head, first, column), load(rows[1], x.v, head, first, column);
      load(inner[0], x.q, query_head_of(step), token_of(step), column);
      load(inner[1], x.dy, query_head_of(step), token_of(step), column);
    } else {
      if (rows_change) load(rows[0], x.q, head, first, column), load(rows[1], x.dy, head, first, column);
      load(inner[0], x.k, head / c.group, token_of(step), column);
      load(inner[1], x.v, head / c.group, token_of(step), column);
    }
    ptx::commit_copies();
  };
  auto const place_of = [&](int query_head, int query) {
    return (static_cast<std::int64_t>(sequence) * c.heads + query_head) * c.tokens + query;
  };

  // Logsumexp (as an exponent of 2) and sum of dy y of the queries in this lane's rows.
  accumulate log2_sum[2]{}, row_sum[2]{};
  if constexpr (!of_keys) {
    detail::sum_of_rows(x.dy.window(c, sequence, head, first, 0), x.y.window(c, sequence, head, first, 0), row, row_sum);
    for (int lower = 0; lower < 2; ++lower) {
      int const query = first + row + strip<accumulate, 8>::row(lower);
      if (query >= c.tokens) continue;
      log2_sum[lower] = x.logsumexp[place_of(head, query)] * accumulate(detail::log2_of_e);
      if (chunks.own == 0 && threadIdx.x % 4 == 0) x.row_sums[place_of(head, query)] = row_sum[lower];
    }
  }

  using rows_type = tile_rows<shared_tile<stored, detail::flash_rows, width>, tiles::in_registers>;
  rows_type scored(shared.rows[0], row), weighed(shared.rows[1], row);
  strip<accumulate, width> dscored;             // dk, or dq
  strip<accumulate, of_keys ? width : 8> dvalue; // dv
  dscored.clear(), dvalue.clear();
  strip<accumulate, tiles::columns> p, ds; // of the current pair of tiles
  begin_step(0);
  for (int step = 0; step < steps; ++step) {
    ptx::wait_for_copies<0>();
    __syncthreads();
    if (tiles::stages == 2 && step + 1 < steps) begin_step(step + 1);
    auto const& inner = shared.inner[step % tiles::stages];
    if (step == 0 || chunks.count > 1) scored.take(), weighed.take();
    if (turn_of(step) == 0) p.clear(), ds.clear();
    multiply_transposed(p, scored, inner[0]);
    multiply_transposed(ds, weighed, inner[1]);
    if (turn_of(step) == chunks.count - 1) {
      int const token = token_of(step), query_head = query_head_of(step);
      p.for_each([&](accumulate& score, int lower, int column) {
        int const mine = first + row + p.row(lower), other = token + column;
        int const query = of_keys ? other : mine, key = of_keys ? mine : other;
        auto log2_total = log2_sum[lower];
        if constexpr (of_keys)
          if (query < c.tokens) log2_total = x.logsumexp[place_of(query_head, query)] * accumulate(detail::log2_of_e);
        bool const counts = query < c.tokens && c.attends(query, key);
        score = counts ? math::exp2(score * c.log2_scale() - log2_total) : accumulate(0);
      });
      if constexpr (of_keys) multiply(dvalue, p, inner[1]);
      ds.for_each([&](accumulate& gradient, int lower, int column) {
        // p and ds have the same layout, so this lane has both elements.
        int const i = lower * 2 + column % 2;
        auto const probability = p.values[column / 8][i];
        auto sum = row_sum[lower];
        if constexpr (of_keys) {
          int const query = token + column;
          sum = query < c.tokens ? x.row_sums[place_of(query_head, query)] : accumulate(0);
        }
        gradient = probability == 0 ? accumulate(0) : probability * (gradient - sum);
      });
      multiply(dscored, ds, inner[0]);
    }
    if (tiles::stages == 1 && step + 1 < steps) {
      __syncthreads();
      begin_step(step + 1);
    }
  }

  // This warp alone reads its rows of the tiles.
  auto const store = [&](auto& gradient, int which, auto const& operand, accumulate factor) {
    __syncwarp();
    gradient.write(shared.rows[which], row, {factor, factor});
    __syncwarp();
    store_rows(shared.rows[which], row, operand.window(c, sequence, head, first, chunks.own_column()));
  };
  if constexpr (of_keys) {
    store(dscored, 0, x.dk, c.scale);
    store(dvalue, 1, x.dv, 1);
  } else store(dscored, 0, x.dq, c.scale);
}

} // namespace constrain
