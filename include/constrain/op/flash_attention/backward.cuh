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

/// A block's work: the gradients of a tile of queries (dq), or of a tile of keys (`of_keys`: dk and dv). The other
/// tokens, keys or queries, arrive in inner tiles.
template <bool of_keys, class stored, class accumulate, int width> class flash_gradient_block {
  using tiling = flash_tiling<stored, width>;
  static constexpr int warp_rows = tiling::warp_rows, columns = tiling::inner_rows;
  using outer_tile = shared_tile<stored, tiling::rows, width>;
  using inner_tile = shared_tile<stored, columns, width>;

public:
  /// The block's shared memory.
  struct memory {
    outer_tile outer[2];                 // q and dy, or k and v
    inner_tile inner[tiling::stages][2]; // k and v, or q and dy
  };

  __device__ flash_gradient_block(flash_call<accumulate> const& c, flash_gradient_operands<stored, accumulate> const& x,
                                  memory& shared)
      : c_(c), x_(x), shared_(shared), chunks_(c.head_width), sequence_(static_cast<int>(blockIdx.x) / heads()),
        head_(static_cast<int>(blockIdx.x) % heads()), row_(static_cast<int>(threadIdx.x) / 32 * warp_rows),
        keys_(c.keys_of(sequence_)),
        // With a causal mask, the last queries and the first keys take the longest, so they begin first.
        first_(static_cast<int>(of_keys ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * tiling::rows) {}

  __device__ void run() {
    int const end = first_ + tiling::rows;
    int const last = of_keys ? c_.tokens : keys_;
    // Without keys, there are no steps.
    flash_steps step{of_keys && c_.causal ? first_ : 0, !of_keys && c_.causal && end < last ? end : last, chunks_.count,
                     (of_keys ? first_ : 0) >= keys_ ? 0
                     : of_keys                       ? c_.group
                                                     : 1};
    if constexpr (!of_keys) sum_queries();
    dscored_.clear(), dvalue_.clear();
    if (step.goes_on()) begin(step);
    for (int done = 0; step.goes_on(); ++done) {
      auto const current = step;
      step.template advance<columns>();
      ptx::wait_for_copies<0>();
      __syncthreads();
      if (tiling::stages == 2 && step.goes_on()) begin(step);
      add_products(current, shared_.inner[done % tiling::stages]);
      if (tiling::stages == 1 && step.goes_on()) {
        __syncthreads();
        begin(step);
      }
    }
    if constexpr (of_keys) {
      store(dscored_, 0, x_.dk);
      store(dvalue_, 1, x_.dv);
    } else store(dscored_, 0, x_.dq);
  }

private:
  /// Heads of a sequence whose gradients the blocks compute.
  __device__ int heads() const { return of_keys ? c_.heads / c_.group : c_.heads; }
  /// The query head of a step, and the key-value head of the block.
  __device__ int query_head(int member) const { return of_keys ? head_ * c_.group + member : head_; }
  __device__ int key_head() const { return of_keys ? head_ : head_ / c_.group; }
  /// Index of a query in an array [sequences, heads, tokens].
  __device__ std::int64_t place_of(int member, int query) const {
    return (static_cast<std::int64_t>(sequence_) * c_.heads + query_head(member)) * c_.tokens + query;
  }

  template <class tile>
  __device__ void load(tile& to, flash_operand<stored const> const& from, int head, int token, int column, int end) {
    begin_load<flash_threads>(to, from.window(c_, sequence_, head, token, column, end));
  }
  /// Begins to load the tiles of a step.
  __device__ void begin(flash_steps const& step) {
    auto const column = chunks_.column(step.turn);
    auto& inner = shared_.inner[loaded_ % tiling::stages];
    auto& outer = shared_.outer;
    int const outer_end = of_keys ? keys_ : c_.tokens, inner_end = of_keys ? c_.tokens : keys_;
    if (loaded_ == 0 || chunks_.count > 1) {
      load(outer[0], of_keys ? x_.k : x_.q, head_, first_, column, outer_end);
      load(outer[1], of_keys ? x_.v : x_.dy, head_, first_, column, outer_end);
    }
    int const inner_head = of_keys ? query_head(step.member) : key_head();
    load(inner[0], of_keys ? x_.q : x_.k, inner_head, step.token, column, inner_end);
    load(inner[1], of_keys ? x_.dy : x_.v, inner_head, step.token, column, inner_end);
    ptx::commit_copies();
    ++loaded_;
  }

  /// Loads the logsumexp, and computes and stores sum(dy * y), of the queries in this lane's rows.
  __device__ void sum_queries() {
    auto const dy = x_.dy.window(c_, sequence_, head_, first_, 0, c_.tokens);
    auto const y = x_.y.window(c_, sequence_, head_, first_, 0, c_.tokens);
    accumulate sum = 0;
    CT_UNROLL
    for (int line = 0; line < queries_.count; ++line) {
      // Two lanes sum a row of 16, and then each lane gets the sums of its own rows.
      if (line % 2 == 0) sum = sum_of_row<accumulate>(dy, y, row_ + line / 2 * 16 + ptx::twin::lane() / 2);
      auto const mine = p_.row(line);
      queries_.row_sums[line] = __shfl_sync(ptx::twin::all_lanes, sum, mine % 16 * 2);
      int const query = first_ + row_ + mine;
      if (query >= c_.tokens) continue;
      queries_.log2_sums[line] = x_.logsumexp[place_of(0, query)] * accumulate(log2_of_e);
      if (chunks_.own == 0 && threadIdx.x % 4 == 0) x_.row_sums[place_of(0, query)] = queries_.row_sums[line];
    }
  }

  /// Adds a chunk of columns to the scores and to the gradients of the probabilities; after the last chunk, adds the
  /// pair of tiles to the gradients.
  __device__ void add_products(flash_steps const& step, inner_tile const (&inner)[2]) {
    // Queries after the last token have probability 0.
    accumulate log2_sum = math::infinity<accumulate>, row_sum = 0;
    if (int const query = step.token + ptx::twin::lane(); of_keys && query < c_.tokens) {
      log2_sum = x_.logsumexp[place_of(step.member, query)] * accumulate(log2_of_e);
      row_sum = x_.row_sums[place_of(step.member, query)];
    }
    if (step.turn == 0) p_.clear(), ds_.clear();
    multiply_transposed(p_, tile_rows<outer_tile, warp_rows>(shared_.outer[0], row_), inner[0]);
    multiply_transposed(ds_, tile_rows<outer_tile, warp_rows>(shared_.outer[1], row_), inner[1]);
    if (step.turn != chunks_.count - 1) return;
    mask(step.token);
    if constexpr (of_keys) queries_.distribute(log2_sum, row_sum);
    p_.for_each([&](accumulate& score, int line, int column) {
      auto const query = queries_.index(line, column);
      auto& gradient = ds_.at(line, column);
      score = math::exp2(score * c_.log2_scale() - queries_.log2_sums[query]);
      gradient = score * (gradient - queries_.row_sums[query]) * c_.scale; // the product rounds it to 16 bits
    });
    if constexpr (of_keys) multiply(dvalue_, p_, inner[1]);
    multiply(dscored_, ds_, inner[0]);
  }
  /// Makes the probability and its gradient 0 where a query does not attend to a key. `token`: first inner token.
  __device__ void mask(int token) {
    int const mine = first_ + row_;
    bool const some = of_keys ? (c_.causal && token < mine + warp_rows - 1) || mine + warp_rows > keys_
                              : token + columns > (c_.causal && mine + 1 < keys_ ? mine + 1 : keys_);
    if (!some) return;
    p_.for_each([&](accumulate& score, int line, int column) {
      int const own = mine + p_.row(line), inner = token + column;
      if (of_keys ? c_.attends(inner, own, keys_) : c_.attends(own, inner, keys_)) return;
      score = -math::infinity<accumulate>, ds_.at(line, column) = 0;
    });
  }

  /// Stores this warp's rows of a gradient.
  template <class rows> __device__ void store(rows& gradient, int which, flash_operand<stored> const& to) {
    // This warp alone reads its rows of the tiles.
    __syncwarp();
    gradient.write(shared_.outer[which], row_);
    __syncwarp();
    store_rows<warp_rows>(shared_.outer[which], row_,
                          to.window(c_, sequence_, head_, first_, chunks_.own_column(), c_.tokens));
  }

  flash_call<accumulate> const& c_;
  flash_gradient_operands<stored, accumulate> const& x_;
  memory& shared_;
  flash_chunks<width> chunks_;
  int sequence_, head_, row_, keys_, first_; // this warp's first row in the tile; keys; the tile's first row
  int loaded_ = 0;                           // steps whose tiles have begun to load
  flash_query_sums<of_keys, accumulate, warp_rows, columns> queries_;
  strip<accumulate, warp_rows, columns> p_, ds_;             // of the current pair of tiles
  strip<accumulate, warp_rows, width> dscored_;              // dk, or dq
  strip<accumulate, warp_rows, of_keys ? width : 8> dvalue_; // dv
};

} // namespace detail

// The gradients of flash attention (Dao 2023, algorithm 2), without atomic additions: each block computes complete rows
// of its results. `of_keys`: dk and dv of a tile of keys, summed over the query heads that share them, in the order of
// these heads; otherwise dq of a tile of queries, and the sums of dy y of its queries.
template <bool of_keys, class stored, class accumulate, int width>
static __global__ void __launch_bounds__(detail::flash_threads, 2)
    flash_gradient_kernel(detail::flash_call<accumulate> c, detail::flash_gradient_operands<stored, accumulate> x) {
  using block = detail::flash_gradient_block<of_keys, stored, accumulate, width>;
  __shared__ typename block::memory shared;
  block(c, x, shared).run();
}

} // namespace constrain
