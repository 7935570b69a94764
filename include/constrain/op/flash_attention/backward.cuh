#pragma once

#include "constrain/op/flash_attention/query_sums.cuh"

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The operands of the kernels of the gradient of flash attention.
template <class stored, class accumulate> struct flash_gradient_operands {
  flash_operand<stored const> dy, q, k, v, y;
  flash_operand<stored> dq, dk, dv;
  accumulate const* logsumexp; // [sequences, heads, tokens]: of each query's scaled scores
  accumulate* minus_row_sums;  // [sequences, heads, tokens]: -sum(dy * y) of each query
};

/// The iterations of a flash_gradient_block, in order. In each, the block reads one of `chunks` chunks of the columns
/// of two inner tiles: k and v, or q and dy. The tiles cover the tokens [begin, end) once for each of `heads` query
/// heads that share keys. `chunk`, `head_in_group`: indices of chunk and head; `token`: first token of the tiles.
struct flash_iterations {
  int begin, end, chunks, heads;
  int chunk = 0, token = begin, head_in_group = 0;

  /// Whether the object refers to an iteration; false after the last one.
  __device__ bool is_valid() const { return head_in_group < heads; }
  /// Advances to the next iteration. `tokens`: tokens of an inner tile.
  template <int tokens> __device__ void advance() {
    if (++chunk < chunks) return;
    chunk = 0;
    token += tokens;
    if (token < end) return;
    token = begin;
    ++head_in_group;
  }
};

/// A block's work: one chunk of columns (flash_chunks) of the gradients of one outer tile, of queries (dq) or, if
/// `of_keys`, of keys (dk and dv). The block loads the keys or, if `of_keys`, the queries in inner tiles.
template <bool of_keys, class stored, class accumulate, int width> class flash_gradient_block {
  using tiling = flash_tiling<stored, width>;
  static constexpr int warp_rows = tiling::warp_rows, columns = tiling::inner_rows, part_rows = tiling::part_rows;
  // The gradients of scores are scaled before they are rounded to fp16, which has a small range of exponents; in other
  // types, their sums are scaled.
  static constexpr bool scales_sums = !std::same_as<stored, float16>;
  using outer_tile = shared_tile<stored, tiling::rows, width>;
  using inner_tile = shared_tile<stored, columns, width>;
  using inner_pair = shared_tile<stored, 2 * columns, width>; // k and v, or q and dy
  // With two gradients of 64 or more columns in registers, half of the tile of v stays in shared memory.
  static constexpr bool splits_v = tiling::is_narrow && of_keys && width >= 64;
  using half_tile = shared_tile<stored, tiling::rows, splits_v ? width / 2 : width>;

public:
  /// Whether the kernel supports masks with documents. With narrow tiles, dk and dv leave no registers for such masks.
  static constexpr bool supports_documents = !(tiling::is_narrow && of_keys);
  /// The block's shared memory. The inner tiles overwrite narrow outer tiles, which are in registers by then.
  struct narrow_memory {
    union {
      outer_tile outer[2];                // q and dy, or k and v
      half_tile halves[splits_v ? 4 : 1]; // the third one holds the left half of v
      inner_pair inner[tiling::stages];
    };
    std::conditional_t<splits_v, half_tile, char> right_half;
    accumulate sums[of_keys ? tiling::stages : 1][2][columns]; // of the queries: logsumexp, -sum(dy y)
  };
  struct wide_memory {
    outer_tile outer[2];
    inner_pair inner[1];
  };
  using memory = std::conditional_t<tiling::is_narrow, narrow_memory, wide_memory>;

  __device__ flash_gradient_block(flash_call<accumulate> const& c, flash_gradient_operands<stored, accumulate> const& x,
                                  memory& shared)
      : c_(c), x_(x), shared_(shared), chunks_(c.head_width), sequence_(static_cast<int>(blockIdx.x) / heads()),
        head_(static_cast<int>(blockIdx.x) % heads()), row_(static_cast<int>(threadIdx.x / 32) * warp_rows),
        mask_(c.masks.template for_sequence<supports_documents>(sequence_)),
        // With a causal mask, the last queries and first keys usually take the longest, so their blocks start first.
        first_(static_cast<int>(of_keys ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * tiling::rows),
        any_range_(compute_range(false)),
        common_range_(compute_range(true)), inner_{source(of_keys ? x.q : x.k), source(of_keys ? x.dy : x.v)} {}

  /// Computes and stores the gradients of the tile.
  __device__ void run() {
    int const last = c_.last_of(first_, tiling::rows);
    auto const inner = of_keys ? mask_.queries(first_, last) : mask_.keys(first_, last);
    // There are no iterations if no query of the tile attends to a key, or if no query attends to a key of the tile.
    flash_iterations iteration{inner.begin, inner.end, chunks_.count,
                               inner.begin < inner.end ? (of_keys ? c_.group : 1) : 0};
    dqk_.clear(), dv_.clear();
    if constexpr (tiling::is_narrow) add_in_stages(iteration);
    else add_chunks(iteration);
    if constexpr (of_keys) {
      store(dqk_, 0, x_.dk, scales_sums ? c_.scale : accumulate(1));
      store(dv_, 1, x_.dv, accumulate(1));
    } else store(dqk_, 0, x_.dq, scales_sums ? c_.scale : accumulate(1));
  }

private:
  using outer_rows = tile_rows<outer_tile, warp_rows>;
  using half_rows = tile_rows<half_tile, warp_rows>;
  /// This thread's source of the inner tiles of one operand, for the block's key-value head or, if `of_keys`, for the
  /// first of the query heads that share it.
  __device__ tile_source<flash_threads, inner_tile> source(flash_operand<stored const> const& operand) const {
    int const head = of_keys ? query_head(0) : key_head();
    return tile_source<flash_threads, inner_tile>(
        operand.head_view(c_, sequence_, head, of_keys ? c_.tokens : mask_.length));
  }
  /// Heads per sequence whose gradients the kernel computes: key-value heads for dk and dv, query heads for dq.
  __device__ int heads() const { return of_keys ? c_.heads / c_.group : c_.heads; }
  /// The inner tokens that attend to at least one of this warp's rows (`of_keys`), or to which at least one of these
  /// rows attends. If `common`: all of the rows, instead of at least one.
  __device__ token_range<int> compute_range(bool common) const {
    int const first = first_ + row_, last = c_.last_of(first, warp_rows);
    if constexpr (of_keys) return common ? mask_.common_queries(first, last) : mask_.queries(first, last);
    else return common ? mask_.common_keys(first, last) : mask_.keys(first, last);
  }
  /// The result of `compute_range`. Kernels that do not support documents compute it again at each use, to save
  /// registers.
  __device__ token_range<int> attended_range(bool common) const {
    if constexpr (supports_documents) return common ? common_range_ : any_range_;
    else return compute_range(common);
  }
  /// The query head of an iteration, and the key-value head of the block.
  __device__ int query_head(int head_in_group) const { return of_keys ? head_ * c_.group + head_in_group : head_; }
  __device__ int key_head() const { return of_keys ? head_ : head_ / c_.group; }
  /// Index of a query in an array [sequences, heads, tokens].
  __device__ std::int64_t index_of_query(int head_in_group, int query) const {
    return (static_cast<std::int64_t>(sequence_) * c_.heads + query_head(head_in_group)) * c_.tokens + query;
  }

  /// Adds the contributions of all iterations for a head that fits into one tile. The next pair of inner tiles is
  /// loaded while the block multiplies the current pair.
  __device__ void add_in_stages(flash_iterations iteration) {
    begin_outer(0);
    ptx::commit_copies();
    if constexpr (!of_keys) load_query_sums();
    if (!iteration.is_valid()) return wait_for_all(); // before `store` overwrites the outer tiles
    wait_for_all();
    held_rows<outer_tile, warp_rows> first_operand;
    first_operand.load(outer_rows(shared_.outer[0], row_));
    auto second_operand = [&] {
      if constexpr (splits_v) return half_held_rows<half_tile, warp_rows>(half_rows(shared_.right_half, row_));
      else return held_rows<outer_tile, warp_rows>();
    }();
    if constexpr (splits_v) second_operand.load(half_rows(shared_.halves[2], row_));
    else second_operand.load(outer_rows(shared_.outer[1], row_));
    __syncthreads();
    int stage = 0;
    begin_stage(iteration, stage);
    CT_KEEP_LOOP
    while (iteration.is_valid()) {
      int const token = iteration.token;
      iteration.template advance<columns>();
      wait_for_all();
      if (iteration.is_valid()) begin_stage(iteration, 1 - stage);
      CT_UNROLL
      for (int first = 0; first < columns; first += part_rows) {
        if (!attended_range(false).overlaps(token + first, part_rows)) continue;
        if constexpr (of_keys) queries_.load(shared_.sums[stage][0] + first, shared_.sums[stage][1] + first);
        auto const& inner = shared_.inner[stage];
        auto const lane_address = lane_address_of_transposed(inner);
        // Tensor cores compute both matmuls alternately, so that they wait less for their own results.
        CT_UNROLL
        for (int k = 0; k < width / 16; ++k) {
          multiply_transposed_block<inner_pair>(p_, first_operand, lane_address, first, k, zero{});
          multiply_transposed_block<inner_pair>(ds_, second_operand, lane_address, columns + first, k, minus_sums());
        }
        add_part(inner, token + first, first);
      }
      stage = 1 - stage;
    }
    __syncthreads();
  }
  /// Begins to load an iteration's inner tiles and, if `of_keys`, the sums of their queries into stage `stage`.
  __device__ void begin_stage(flash_iterations const& iteration, int stage) {
    begin_inner(shared_.inner[stage], iteration, 0);
    if constexpr (of_keys) {
      static_assert(2 * columns == flash_threads);
      // Queries beyond the last token get zeros, like their rows of q and dy.
      int const i = static_cast<int>(threadIdx.x % columns), array = static_cast<int>(threadIdx.x / columns);
      bool const is_query = iteration.token + i < c_.tokens;
      auto const index = index_of_query(iteration.head_in_group, iteration.token) + (is_query ? i : 0);
      auto const* const source = array == 0 ? x_.logsumexp + index : x_.minus_row_sums + index;
      ptx::copy_word_async(&shared_.sums[stage][array][i], source, is_query);
    }
    ptx::commit_copies();
  }
  /// Waits until all started copies are complete, and until no warp reads the previous tiles.
  __device__ void wait_for_all() {
    ptx::wait_for_copies<0>();
    __syncthreads();
  }

  /// Adds the contributions of all iterations for a head that may have several chunks of columns.
  __device__ void add_chunks(flash_iterations iteration) {
    if (iteration.is_valid()) begin_chunk(iteration, true);
    if constexpr (!of_keys) load_query_sums();
    while (iteration.is_valid()) {
      auto const current = iteration;
      iteration.template advance<columns>();
      wait_for_all();
      add_chunk(current);
      if (!iteration.is_valid()) return;
      __syncthreads();
      begin_chunk(iteration, chunks_.count > 1);
    }
  }
  /// Begins to load an iteration's chunk of the inner tiles and, if `outer_changes`, of the outer tiles.
  __device__ void begin_chunk(flash_iterations const& iteration, bool outer_changes) {
    if (outer_changes) begin_outer(chunks_.column(iteration.chunk));
    begin_inner(shared_.inner[0], iteration, chunks_.column(iteration.chunk));
    ptx::commit_copies();
  }
  /// Adds the terms of a chunk of columns to the scores and to the gradients of the probabilities. After the last
  /// chunk, which has the columns of this block's results, adds the contributions of the inner tiles to the gradients.
  __device__ void add_chunk(flash_iterations const& iteration) {
    auto const& inner = shared_.inner[0];
    if (iteration.chunk == 0) {
      if constexpr (of_keys) load_queries(iteration);
      p_.begin_with(zero{}), ds_.begin_with(minus_sums());
    }
    multiply_transposed(p_, outer_rows(shared_.outer[0], row_), inner);
    multiply_transposed(ds_, outer_rows(shared_.outer[1], row_), inner, columns);
    if (iteration.chunk == chunks_.count - 1) add_part(inner, iteration.token, 0);
  }
  /// Loads the logsumexp and -sum(dy y) of the queries of the current inner tiles.
  __device__ void load_queries(flash_iterations const& iteration) {
    // Queries beyond the last token have probability 0.
    accumulate log2_sum = math::infinity<accumulate>, minus_row_sum = 0;
    if (int const query = iteration.token + ptx::twin::lane(); query < c_.tokens) {
      log2_sum = x_.logsumexp[index_of_query(iteration.head_in_group, query)] * accumulate(log2_of_e);
      minus_row_sum = x_.minus_row_sums[index_of_query(iteration.head_in_group, query)];
    }
    queries_.distribute(log2_sum, minus_row_sum);
  }

  /// Begins to load the outer tiles, or one of them: the columns from `column` on.
  __device__ void begin_outer(int column) {
    begin_outer(shared_.outer[0], of_keys ? x_.k : x_.q, column);
    auto const& second = of_keys ? x_.v : x_.dy;
    if constexpr (splits_v) {
      begin_outer(shared_.halves[2], second, column);
      begin_outer(shared_.right_half, second, column + half_tile::columns);
    } else begin_outer(shared_.outer[1], second, column);
  }
  template <class tile> __device__ void begin_outer(tile& to, flash_operand<stored const> const& from, int column) {
    auto const head = from.head_view(c_, sequence_, head_, of_keys ? mask_.length : c_.tokens);
    tile_source<flash_threads, tile>(head).begin(to, first_, column);
  }
  __device__ void begin_inner(inner_pair& inner, flash_iterations const& iteration, int column) {
    // The query heads that share a key-value head are adjacent.
    int const head_offset = iteration.head_in_group * c_.head_width;
    inner_[0].begin(inner.template subtile<columns>(0), iteration.token, column, head_offset);
    inner_[1].begin(inner.template subtile<columns>(columns), iteration.token, column, head_offset);
  }

  /// Loads the logsumexp and computes -sum(dy y) of the queries in this lane's rows. Blocks of chunk 0 store the sums.
  __device__ void load_query_sums() {
    auto const dy = x_.dy.view(c_, sequence_, head_, first_, 0, c_.tokens);
    auto const y = x_.y.view(c_, sequence_, head_, first_, 0, c_.tokens);
    accumulate sum = 0;
    CT_UNROLL
    for (int line = 0; line < queries_.count; ++line) {
      // Each pair of lanes sums one of 16 rows, and then each lane gets the sums of the rows of its lines.
      if (line % 2 == 0) sum = -sum_of_row<width, accumulate>(dy, y, row_ + line / 2 * 16 + ptx::twin::lane() / 2);
      auto const row = p_.row(line);
      queries_.minus_row_sums[line] = __shfl_sync(ptx::twin::all_lanes, sum, row % 16 * 2);
      int const query = first_ + row_ + row;
      if (query >= c_.tokens) continue;
      queries_.log2_sums[line] = x_.logsumexp[index_of_query(0, query)] * accumulate(log2_of_e);
      if (chunks_.result_chunk == 0 && threadIdx.x % 4 == 0)
        x_.minus_row_sums[index_of_query(0, query)] = queries_.minus_row_sums[line];
    }
  }

  /// Initial values of the scores (zero) and of the gradients of the probabilities (minus_sums).
  struct zero {
    __device__ strip_block<accumulate> operator()(int, int) const { return {}; }
  };
  __device__ auto minus_sums() const {
    return [this](int m, int n) { return queries_.minus_row_sums_of(m, n); };
  }
  /// Adds the contributions of `part_rows` rows of the inner tiles to the gradients. `first`: the first of these rows;
  /// `token`: its token.
  __device__ void add_part(inner_pair const& inner, int token, int first) {
    mask(token);
    p_.for_each([&](accumulate& score, int line, int column) {
      auto const query = queries_.index(line, column);
      auto& gradient = ds_.at(line, column);
      score = math::exp2(score * c_.log2_scale() - queries_.log2_sums[query]);
      gradient *= score;
      if constexpr (!scales_sums) gradient *= c_.scale;
    });
    if constexpr (of_keys) multiply(dv_, p_, inner, columns + first);
    multiply(dqk_, ds_, inner, first);
  }
  /// Where a query does not attend to a key, sets the score to -infinity and the gradient of the probability to 0.
  /// `token`: the first inner token of the part.
  __device__ void mask(int token) {
    if (attended_range(true).contains(token, part_rows)) return;
    for_each_masked<of_keys>(p_, mask_, first_ + row_, token, [&](accumulate& score, int line, int column) {
      score = -math::infinity<accumulate>, ds_.at(line, column) = 0;
    });
  }

  /// Stores this warp's rows of a gradient.
  template <class rows>
  __device__ void store(rows& gradient, int outer_index, flash_operand<stored> const& to, accumulate scale) {
    gradient.for_each([&](accumulate& x, int, int) { x *= scale; });
    // Only this warp reads its rows of the tiles.
    __syncwarp();
    gradient.write(shared_.outer[outer_index], row_);
    __syncwarp();
    store_rows<warp_rows>(shared_.outer[outer_index], row_,
                          to.view(c_, sequence_, head_, first_, chunks_.result_column(), c_.tokens));
  }

  flash_call<accumulate> const& c_;
  flash_gradient_operands<stored, accumulate> const& x_;
  memory& shared_;
  flash_chunks<width, tiling::is_narrow> chunks_;
  int sequence_, head_, row_; // head_: index of one of `heads()` heads; row_: this warp's first row in the tile
  attention_mask<int, supports_documents> mask_;
  int first_;                                 // the tile's first token
  token_range<int> any_range_, common_range_; // compute_range(false) and compute_range(true)
  tile_source<flash_threads, inner_tile> inner_[2];
  flash_query_sums<of_keys, accumulate, warp_rows, part_rows> queries_;
  strip<accumulate, warp_rows, part_rows> p_, ds_;       // of the part: scores, then probabilities; their gradients
  strip<accumulate, warp_rows, width> dqk_;              // dk, or dq
  strip<accumulate, warp_rows, of_keys ? width : 8> dv_; // dv, if `of_keys`
};

} // namespace detail

// Computes the gradients of flash attention (Dao 2023, algorithm 2), without atomic additions: each block adds up all
// contributions to its results. With `of_keys`, the results are dk and dv of a tile of keys, summed over the query
// heads that share these keys, in the order of the heads. Otherwise, the results are dq of a tile of queries, and
// -sum(dy y) of each of these queries, which the kernel with `of_keys` reads.
template <bool of_keys, class stored, class accumulate, int width>
static __global__ void __launch_bounds__(detail::flash_threads, 2)
    flash_gradient_kernel(detail::flash_call<accumulate> c, detail::flash_gradient_operands<stored, accumulate> x) {
  using block = detail::flash_gradient_block<of_keys, stored, accumulate, width>;
  __shared__ typename block::memory shared;
  block(c, x, shared).run();
}

} // namespace constrain
