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

/// The shared memory of a block that computes gradients of a tile of rows: queries for dq, keys for dk and dv. The
/// other tokens, keys or queries, arrive in inner tiles.
template <class stored, int width, class tiling = flash_tiling<stored, width>> struct flash_gradient_tiles {
  shared_tile<stored, tiling::rows, width> rows[2];                        // q and dy, or k and v
  shared_tile<stored, tiling::inner_rows, width> inner[tiling::stages][2]; // k and v, or q and dy
};

/// The steps of a block, in order. In each step, the block reads one chunk of the columns of one inner tile. Inner
/// tiles begin at `token`, and follow one another from `from` to `to`; `member` is the query head, of those that share
/// keys.
struct flash_steps {
  int from, to, chunks, members;
  int turn = 0, token = from, member = 0;

  /// Whether this is a step, not the end.
  __device__ bool goes_on() const { return member < members; }
  template <int tokens> __device__ void advance() {
    if (++turn < chunks) return;
    turn = 0;
    token += tokens;
    if (token < to) return;
    token = from;
    ++member;
  }
};

/// What the gradient needs of each query of a strip [rows, columns]: the logsumexp of the scores, as an exponent of 2,
/// and the sum of dy y. `of_columns`: whether the queries are the columns of the strip, or its rows.
template <bool of_columns, class real, int rows, int columns> struct flash_query_sums {
  static constexpr int count = of_columns ? columns / 4 : rows / 8;
  real log2_sums[count]{}, row_sums[count]{};

  __device__ static int index(int line, int column) { return of_columns ? column / 8 * 2 + column % 2 : line; }
  /// Distributes the numbers of the queries of the columns: lane i passes those of column i.
  __device__ void distribute(real log2_sum, real row_sum) {
    static_assert(columns == 32);
    CT_UNROLL
    for (int i = 0; i < count; ++i) {
      int const column = i / 2 * 8 + static_cast<int>(threadIdx.x % 4) * 2 + i % 2;
      log2_sums[i] = __shfl_sync(ptx::twin::all_lanes, log2_sum, column);
      row_sums[i] = __shfl_sync(ptx::twin::all_lanes, row_sum, column);
    }
  }
};

/// sum(dy * y) over a head's columns of row `row`, 0 after the last row. The two lanes that differ in the lowest bit
/// compute it together.
template <class accumulate, class stored>
__device__ accumulate sum_of_row(matrix_window<stored const> const& dy, matrix_window<stored const> const& y, int row) {
  constexpr int in_unit = pack_of<stored>;
  accumulate sum = 0;
  for (int column = static_cast<int>(threadIdx.x % 2) * in_unit; row < dy.rows && column < dy.columns;
       column += 2 * in_unit) {
    auto const* const left = dy.data + row * dy.stride + column;
    auto const* const right = y.data + row * y.stride + column;
    if (dy.aligned) {
      accumulate a[in_unit], b[in_unit];
      load_pack(left, a), load_pack(right, b);
      CT_UNROLL
      for (int i = 0; i < in_unit; ++i) sum += a[i] * b[i];
    } else
      for (int i = 0; i < in_unit && column + i < dy.columns; ++i) sum += accumulate(left[i]) * accumulate(right[i]);
  }
  return sum + __shfl_xor_sync(ptx::twin::all_lanes, sum, 1);
}

} // namespace detail

// The gradients of flash attention (Dao 2023, algorithm 2), without atomic additions: each block computes complete rows
// of its results. `of_keys`: dk and dv of a tile of keys, summed over the query heads that share them, in the order of
// these heads; otherwise dq of a tile of queries, and the sums of dy y of its queries.
template <bool of_keys, class stored, class accumulate, int width>
static __global__ void __launch_bounds__(detail::flash_threads, 2)
    flash_gradient_kernel(detail::flash_call<accumulate> c, detail::flash_gradient_operands<stored, accumulate> x) {
  using tiling = detail::flash_tiling<stored, width>;
  constexpr int rows = tiling::rows, warp_rows = tiling::warp_rows, columns = tiling::inner_rows;
  __shared__ detail::flash_gradient_tiles<stored, width> shared;
  detail::flash_chunks<width> const chunks(c.head_width);
  auto const row = static_cast<int>(threadIdx.x) / 32 * warp_rows; // this warp's first row in the tile
  int const heads = of_keys ? c.heads / c.group : c.heads;
  auto const sequence = static_cast<int>(blockIdx.x) / heads, head = static_cast<int>(blockIdx.x) % heads;
  int const first = static_cast<int>(of_keys ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * rows;
  // The inner tokens: queries that attend to this tile's keys, or keys to which this tile's queries attend.
  int const from = of_keys && c.causal ? first : 0;
  int const to = !of_keys && c.causal && first + rows < c.tokens ? first + rows : c.tokens;
  detail::flash_steps step{from, to, chunks.count, of_keys ? c.group : 1};

  auto const load = [&](auto& tile, auto const& operand, int which_head, int token, int column) {
    begin_load<detail::flash_threads>(tile, operand.window(c, sequence, which_head, token, column));
  };
  int loaded = 0; // steps whose tiles have been loaded
  auto const begin = [&](detail::flash_steps const& next) {
    auto const column = chunks.column(next.turn);
    auto& inner = shared.inner[loaded % tiling::stages];
    auto& outer = shared.rows;
    bool const rows_change = loaded == 0 || chunks.count > 1;
    if constexpr (of_keys) {
      if (rows_change) load(outer[0], x.k, head, first, column), load(outer[1], x.v, head, first, column);
      load(inner[0], x.q, head * c.group + next.member, next.token, column);
      load(inner[1], x.dy, head * c.group + next.member, next.token, column);
    } else {
      if (rows_change) load(outer[0], x.q, head, first, column), load(outer[1], x.dy, head, first, column);
      load(inner[0], x.k, head / c.group, next.token, column);
      load(inner[1], x.v, head / c.group, next.token, column);
    }
    ptx::commit_copies();
    ++loaded;
  };
  auto const place_of = [&](int query_head, int query) {
    return (static_cast<std::int64_t>(sequence) * c.heads + query_head) * c.tokens + query;
  };

  detail::flash_query_sums<of_keys, accumulate, warp_rows, columns> queries;
  if constexpr (!of_keys) {
    auto const dy = x.dy.window(c, sequence, head, first, 0), y = x.y.window(c, sequence, head, first, 0);
    CT_UNROLL
    for (int line = 0; line < queries.count; ++line) {
      // Two lanes sum a row of 16, and then each lane gets the sum of its own row.
      auto const sum = detail::sum_of_row<accumulate>(dy, y, row + line / 2 * 16 + ptx::twin::lane() / 2);
      auto const mine = strip<accumulate, warp_rows, 8>::row(line);
      queries.row_sums[line] = __shfl_sync(ptx::twin::all_lanes, sum, mine % 16 * 2);
      int const query = first + row + mine;
      if (query >= c.tokens) continue;
      queries.log2_sums[line] = x.logsumexp[place_of(head, query)] * accumulate(detail::log2_of_e);
      if (chunks.own == 0 && threadIdx.x % 4 == 0) x.row_sums[place_of(head, query)] = queries.row_sums[line];
    }
  }

  using rows_type = tile_rows<shared_tile<stored, rows, width>, warp_rows>;
  rows_type scored(shared.rows[0], row), weighed(shared.rows[1], row);
  strip<accumulate, warp_rows, width> dscored;              // dk, or dq
  strip<accumulate, warp_rows, of_keys ? width : 8> dvalue; // dv
  dscored.clear(), dvalue.clear();
  strip<accumulate, warp_rows, columns> p, ds; // of the current pair of tiles
  begin(step);
  for (int done = 0; step.goes_on(); ++done) {
    auto const current = step;
    step.template advance<columns>();
    ptx::wait_for_copies<0>();
    __syncthreads();
    if (tiling::stages == 2 && step.goes_on()) begin(step);
    // Queries after the last token have probability 0.
    accumulate log2_sum = math::infinity<accumulate>, row_sum = 0;
    if (int const query = current.token + ptx::twin::lane(); of_keys && query < c.tokens) {
      auto const place = place_of(head * c.group + current.member, query);
      log2_sum = x.logsumexp[place] * accumulate(detail::log2_of_e), row_sum = x.row_sums[place];
    }
    auto const& inner = shared.inner[done % tiling::stages];
    if (current.turn == 0) p.clear(), ds.clear();
    multiply_transposed(p, scored, inner[0]);
    multiply_transposed(ds, weighed, inner[1]);
    if (current.turn == chunks.count - 1) {
      // The first tokens of this warp's rows and of the inner tile.
      int const mine = first + row, other = current.token;
      bool const some_are_masked =
          of_keys ? c.causal && other < mine + warp_rows - 1 : other + columns > (c.causal ? mine + 1 : c.tokens);
      if (some_are_masked)
        p.for_each([&](accumulate& score, int line, int column) {
          int const own = mine + p.row(line), inner_token = other + column;
          if (of_keys ? c.attends(inner_token, own) : c.attends(own, inner_token)) return;
          score = -math::infinity<accumulate>, ds.at(line, column) = 0;
        });
      if constexpr (of_keys) queries.distribute(log2_sum, row_sum);
      p.for_each([&](accumulate& score, int line, int column) {
        auto const query = queries.index(line, column);
        auto& gradient = ds.at(line, column);
        score = math::exp2(score * c.log2_scale() - queries.log2_sums[query]);
        gradient = score * (gradient - queries.row_sums[query]);
      });
      if constexpr (of_keys) multiply(dvalue, p, inner[1]);
      multiply(dscored, ds, inner[0]);
    }
    if (tiling::stages == 1 && step.goes_on()) {
      __syncthreads();
      begin(step);
    }
  }

  // This warp alone reads its rows of the tiles.
  auto const store = [&](auto& gradient, int which, auto const& operand, accumulate scale) {
    accumulate factor[gradient.lines];
    CT_UNROLL
    for (auto& f : factor) f = scale;
    __syncwarp();
    gradient.write(shared.rows[which], row, factor);
    __syncwarp();
    store_rows<warp_rows>(shared.rows[which], row, operand.window(c, sequence, head, first, chunks.own_column()));
  };
  if constexpr (of_keys) {
    store(dscored, 0, x.dk, c.scale);
    store(dvalue, 1, x.dv, 1);
  } else store(dscored, 0, x.dq, c.scale);
}

} // namespace constrain
