#pragma once

#include "constrain/device/cuda/held_row.cuh"
#include "constrain/device/cuda/reduce.cuh"

#include <sm_30_intrinsics.h>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr int embedding_warps = cuda_threads / 32;              // warps of a block
inline constexpr int embedding_loads = 16;                             // positions that a lane checks per round
inline constexpr int embedding_round = cuda_threads * embedding_loads; // positions that a block checks per round
// If a round has at most this many rows of a token, one warp adds them; otherwise, the block does, with one thread per
// column.
inline constexpr int max_warp_rows = 32;

/// The index of the lowest set bit of an `x` that is not 0.
__device__ inline int lowest_bit(unsigned x) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(x)) - 1;
#else
  return __builtin_ctz(x);
#endif
}

/// The tokens, partitioned into 2^bits buckets by their lowest `bits` bits.
struct token_buckets {
  std::int32_t const* tokens;
  std::int64_t positions;
  int bits;

  /// Chooses `bits`: the smallest value with which buckets have about 64 positions or fewer on average, but at most 7.
  /// `bits` is larger only if the other bits of a token and a position in a round would otherwise not fit into 32 bits.
  /// `t`: `count` tokens in device memory, which must outlive this object. `vocabulary`: rows of the table.
  token_buckets(std::int32_t const* t, std::int64_t count, std::int64_t vocabulary)
      : tokens(t), positions(count), bits(0) {
    while ((bits < 7 && count >> bits > 64) || vocabulary >> bits >= (std::int64_t{1} << 32) / embedding_round) ++bits;
  }

  /// The bits of a token that determine its bucket.
  __device__ unsigned mask() const { return (1u << bits) - 1; }
};

/// The positions of a round whose tokens belong to one bucket (the matches), in the shared memory of a block.
struct embedding_matches {
  unsigned encoded[embedding_round]; // the token's upper bits, times embedding_round, plus the position in the round
  int counts[2][embedding_warps]; // matches per warp; two sets alternate, so a round without matches needs one barrier
  int frequent_count[embedding_warps]; // per warp: number of its tokens with many rows
  /// Per warp: the first match of each of its tokens with many rows.
  int first_of_frequent[embedding_warps][embedding_round / max_warp_rows];

  /// Finds the matches of the round that begins at position `round_begin`, in ascending order, and returns their
  /// number. The matches can be read after the next __syncthreads. `parity`: 0 and 1 in alternate rounds. All threads
  /// of the block must take part.
  __device__ int find(token_buckets const& buckets, unsigned bucket, std::int64_t round_begin, int parity) {
    int const lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    int const begin = warp * 32 * embedding_loads + lane;
    auto const remaining = buckets.positions - round_begin;
    int const end = remaining < embedding_round ? static_cast<int>(remaining) : embedding_round;
    std::int32_t const* const tokens = buckets.tokens + round_begin;
    std::int32_t token[embedding_loads];
    CT_UNROLL
    for (int k = 0; k < embedding_loads; ++k) token[k] = begin + k * 32 < end ? tokens[begin + k * 32] : -1;
    auto const is_match = [&](std::int32_t t) {
      return t >= 0 && (static_cast<unsigned>(t) & buckets.mask()) == bucket;
    };
    int count = 0, next_index = 0, total = 0;
    CT_UNROLL
    for (int k = 0; k < embedding_loads; ++k) count += count_bits(__ballot_sync(0xFFFFFFFF, is_match(token[k])));
    if (lane == 0) counts[parity][warp] = count;
    __syncthreads();
    CT_UNROLL
    for (int w = 0; w < embedding_warps; ++w)
      next_index += w < warp ? counts[parity][w] : 0, total += counts[parity][w];
    if (total == 0) return 0;
    CT_UNROLL
    for (int k = 0; k < embedding_loads; ++k) {
      auto const match_mask = __ballot_sync(0xFFFFFFFF, is_match(token[k]));
      if (is_match(token[k]))
        encoded[next_index + count_bits(match_mask & ((1u << lane) - 1))] =
            (static_cast<unsigned>(token[k]) >> buckets.bits) * embedding_round + static_cast<unsigned>(begin + k * 32);
      next_index += count_bits(match_mask);
    }
    return total;
  }
  /// A mask of the matches with one token, out of the 32 matches from `group_begin` on. `token`: the upper bits of this
  /// token. `count`: the number of matches. All lanes of a warp must take part.
  __device__ unsigned mask_of_token(unsigned token, int group_begin, int count) const {
    int const i = group_begin + static_cast<int>(threadIdx.x % 32);
    return __ballot_sync(0xFFFFFFFF, i < count && encoded[i] / embedding_round == token);
  }
  /// The upper bits of a match's token, and the match's position in the round.
  __device__ unsigned token(int match) const { return encoded[match] / embedding_round; }
  __device__ int position(int match) const { return static_cast<int>(encoded[match] % embedding_round); }
};

/// The columns that a block handles: `packs` packs of n in each lane of a warp.
template <int n, int packs> inline constexpr int embedding_columns = 32 * n* packs;

/// Adds the rows of dy for one token in a round to the token's row of dtable. All lanes of one warp must take part; a
/// lane adds the columns of a `held_row`. `match`: index of the token's first match. `count`: the number of matches.
/// `dy`: the block's columns of the round's first row. `width`: elements of a row. `to`: the block's columns of the row
/// of dtable. `columns`: the number of the block's columns, a multiple of n, at most embedding_columns<n, packs>.
template <int n, int packs, class stored, class accumulate>
__device__ void add_rows_of_token(embedding_matches const& matches, int match, int count, stored const* dy,
                                  std::int64_t width, accumulate* to, int columns) {
  constexpr int loads_in_flight = 4;
  using held = held_row<n, packs, stored>;
  accumulate sums[packs][n], values[n];
  CT_UNROLL
  for (int p = 0; p < packs; ++p)
    if (held::column(p) < columns) load_pack(to + held::column(p), sums[p]);
  CT_KEEP_LOOP
  for (int group_begin = match / 32 * 32; group_begin < count; group_begin += 32) {
    auto mask = matches.mask_of_token(matches.token(match), group_begin, count);
    CT_KEEP_LOOP
    while (mask != 0) {
      held rows[loads_in_flight];
      int const remaining = count_bits(mask);
      CT_UNROLL
      for (int k = 0; k < loads_in_flight; ++k)
        if (k < remaining) {
          rows[k].load(dy + matches.position(group_begin + lowest_bit(mask)) * width, columns);
          mask &= mask - 1;
        }
      CT_UNROLL
      for (int k = 0; k < loads_in_flight; ++k)
        if (k < remaining) {
          CT_UNROLL
          for (int p = 0; p < packs; ++p) {
            if (held::column(p) >= columns) continue;
            rows[k].pack[p].unpack(values);
            CT_UNROLL
            for (int j = 0; j < n; ++j) sums[p][j] += values[j];
          }
        }
    }
  }
  CT_UNROLL
  for (int p = 0; p < packs; ++p)
    if (held::column(p) < columns) store_pack(sums[p], to + held::column(p));
}

/// Like add_rows_of_token, but with one column per thread, for a token with many rows. All warps of the block must take
/// part; for threads beyond the block's last column, `stores` is false.
template <class stored, class accumulate>
__device__ void add_many_rows(embedding_matches const& matches, int match, int count, stored const* dy,
                              std::int64_t width, accumulate* to, bool stores) {
  constexpr int loads_in_flight = 16;
  accumulate sum = *to;
  CT_KEEP_LOOP
  for (int group_begin = match / 32 * 32; group_begin < count; group_begin += 32) {
    auto mask = matches.mask_of_token(matches.token(match), group_begin, count);
    CT_KEEP_LOOP
    for (int half = 0; half < 32; half += loads_in_flight, mask >>= loads_in_flight) {
      stored rows[loads_in_flight];
      CT_UNROLL
      for (int k = 0; k < loads_in_flight; ++k)
        if ((mask >> k & 1) != 0) rows[k] = dy[matches.position(group_begin + half + k) * width];
      CT_UNROLL
      for (int k = 0; k < loads_in_flight; ++k)
        if ((mask >> k & 1) != 0) sum += accumulate(rows[k]);
    }
  }
  if (stores) *to = sum;
}

} // namespace detail

// dtable[token] += the sum of dy over the positions of the token. Block (i, j) handles the tokens of bucket i, and
// embedding_columns<n, packs> columns; n must divide `width`. The block adds the rows in the order of the positions,
// without atomics, so that all runs give bit-identical results. One warp adds the rows of a token; if a round has more
// than `max_warp_rows` rows of the token, the block adds them, with one thread per column.
template <int n, int packs, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads, sizeof(stored) < 4 ? 3 : 1)
    embedding_gradient_kernel(stored const* dy, detail::token_buckets buckets, std::int64_t width, accumulate* dtable) {
  __shared__ detail::embedding_matches matches;
  int const lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  constexpr int block_columns = detail::embedding_columns<n, packs>;
  auto const first_column = static_cast<std::int64_t>(blockIdx.y) * block_columns;
  int const columns = width - first_column < block_columns ? static_cast<int>(width - first_column) : block_columns;
  auto const row_of_token = [&](unsigned token) {
    return dtable + ((static_cast<std::int64_t>(token) << buckets.bits) + blockIdx.x) * width + first_column;
  };
  int parity = 0;
  for (std::int64_t round_begin = 0; round_begin < buckets.positions;
       round_begin += detail::embedding_round, parity ^= 1) {
    int const count = matches.find(buckets, blockIdx.x, round_begin, parity);
    if (count == 0) continue;
    __syncthreads();
    stored const* const rows = dy + round_begin * width + first_column;
    int frequent_count = 0;
    CT_KEEP_LOOP
    for (int match = 0; match < count; ++match) {
      auto const token = matches.token(match);
      if (token % detail::embedding_warps != static_cast<unsigned>(warp)) continue;
      int total = 0, first = -1;
      CT_KEEP_LOOP
      for (int group_begin = 0; group_begin < count && (first < 0 || first == match); group_begin += 32) {
        auto const mask = matches.mask_of_token(token, group_begin, count);
        if (first < 0 && mask != 0) first = group_begin + detail::lowest_bit(mask);
        total += count_bits(mask);
      }
      if (first != match) continue;
      if (total <= detail::max_warp_rows)
        detail::add_rows_of_token<n, packs>(matches, match, count, rows, width, row_of_token(token), columns);
      else if (lane == 0) matches.first_of_frequent[warp][frequent_count] = match;
      frequent_count += total > detail::max_warp_rows ? 1 : 0;
    }
    if (lane == 0) matches.frequent_count[warp] = frequent_count;
    __syncthreads();
    int const thread = static_cast<int>(threadIdx.x);
    int const column = thread < columns ? thread : 0;
    for (int w = 0; w < detail::embedding_warps; ++w)
      for (int k = 0; k < matches.frequent_count[w]; ++k) {
        int const match = matches.first_of_frequent[w][k];
        detail::add_many_rows(matches, match, count, rows + column, width, row_of_token(matches.token(match)) + column,
                              thread < columns);
      }
    __syncthreads(); // the next round overwrites the matches
  }
}

} // namespace constrain
