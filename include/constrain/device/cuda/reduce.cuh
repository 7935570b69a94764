#pragma once

#include "constrain/device/cuda/divisor.hpp"
#include "constrain/device/cuda/packs.cuh"
#include "constrain/device/cuda/start_kernel.cuh"

#include <sm_30_intrinsics.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The number of set bits of `x`.
__device__ inline int count_bits(unsigned x) {
#if defined(__CUDA_ARCH__)
  return __popc(x);
#else
  return __builtin_popcount(x);
#endif
}

/// The sum of one value per lane, in a fixed order; every lane gets the result. All lanes of a warp must take part.
template <class real> __device__ real warp_sum(real x) {
  CT_UNROLL
  for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, lane_mask);
  return x;
}

/// Reduces one value per thread of a block, whose number of threads is a multiple of 32 and at most 1024; every thread
/// gets the result. All threads of the block must take part. The order of the reduction depends only on the number of
/// threads.
template <class real> struct block_reduction {
  /// Shared memory of a block for one reduction at a time: declare it `__shared__`.
  struct memory {
    real warp_results[32];
  };
  memory& shared; // of this block

  /// The sum of `x` over all threads of the block.
  __device__ real sum(real x) {
    return over_warps(warp_sum(x), [](real a, real b) { return a + b; });
  }
  /// The maximum of `x` over all threads of the block; unspecified if an `x` is NaN.
  __device__ real max(real x) {
    auto const larger = [](real a, real b) { return a > b ? a : b; };
    CT_UNROLL
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) x = larger(x, __shfl_xor_sync(0xFFFFFFFF, x, lane_mask));
    return over_warps(x, larger);
  }

private:
  template <class function> __device__ real over_warps(real x, function const& f) {
    if (threadIdx.x % 32 == 0) shared.warp_results[threadIdx.x / 32] = x;
    __syncthreads();
    real result = shared.warp_results[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) result = f(result, shared.warp_results[warp]);
    __syncthreads(); // the memory may be used again
    return result;
  }
};

namespace detail {

/// f.thread_state(), or f if it has no such member.
template <class function> __device__ auto thread_state(function const& f) {
  if constexpr (requires { f.thread_state(); }) return f.thread_state();
  else return f;
}

} // namespace detail

/// The rows of a matrix, split into nearly equal parts: part i holds the rows [begin(i), begin(i + 1)).
class row_partition {
public:
  /// `rows`, `parts`: numbers of rows and of parts; at least one part.
  row_partition(std::int64_t rows, std::int64_t parts) : rows_(rows), parts_(parts) {}
  /// The first row of a part; the number of rows, if `part` is the number of parts.
  __device__ std::int64_t begin(std::int64_t part) const { return parts_.quotient(rows_ * part); }

private:
  std::int64_t rows_;
  divisor parts_;
};

/// One value for each of 32 n columns, in shared memory: lane i of a warp has columns i n to i n + n - 1. There are no
/// bank conflicts if the lanes access their columns, or 32 consecutive columns that begin at a multiple of 32.
template <int n, class real> struct lane_columns {
  static_assert(n == 1 || 128 / sizeof(real) % n == 0);
  static constexpr int padding = n == 1 ? 0 : 128 / static_cast<int>(sizeof(real)) / n;
  real values[n][32 + padding];

  /// The value of a lane's column `j`, 0 to n - 1.
  __device__ real& of_lane(int lane, int j) { return values[j][lane]; }
  /// The value of a column, 0 to 32 n - 1.
  __device__ real of_column(int column) const { return values[column % n][column / n]; }
};

/// Sums each column of a matrix [rows, columns] over each part of the rows: sums [parts, columns]. n must divide
/// `columns`. The matrix need not be in memory: f.load(row, column) loads the inputs of the n consecutive elements that
/// begin at this row and column, and f(loaded, row, column, values) computes these elements. If `f` has a member
/// function `thread_state`, each thread uses the object that f.thread_state() returns. Block (i, j) sums 32 n columns,
/// from column 32 n i, over part j; its warps take the rows of the part in turn. Except in fp64, a thread loads the
/// inputs for two rows before it computes, so that more loads are in flight.
template <int n, class real, class function>
static __global__ void __launch_bounds__(cuda_threads)
    column_sums_kernel(function f, row_partition rows, std::int64_t columns, real* sums) {
  constexpr int warps = cuda_threads / 32;
  __shared__ lane_columns<n, real> warp_sums[warps];
  int const lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  auto const column = (static_cast<std::int64_t>(blockIdx.x) * 32 + lane) * n;
  auto const part = static_cast<std::int64_t>(blockIdx.y);
  real thread_sums[n]{}, values[n];
  auto const values_of = detail::thread_state(f);
  auto const end = rows.begin(part + 1);
  auto row = column < columns ? rows.begin(part) + warp : end;
  auto const add = [&](auto const& loaded, std::int64_t loaded_row) {
    values_of(loaded, loaded_row, column, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) thread_sums[j] += values[j];
  };
  if constexpr (sizeof(real) < 8) { // in fp64, there are registers for only one row
    CT_KEEP_LOOP
    for (; row + warps < end; row += 2 * warps) {
      auto const first = values_of.load(row, column), second = values_of.load(row + warps, column);
      add(first, row), add(second, row + warps);
    }
    if (row < end) add(values_of.load(row, column), row);
  } else
    for (; row < end; row += warps) add(values_of.load(row, column), row);
  CT_UNROLL
  for (int j = 0; j < n; ++j) warp_sums[warp].of_lane(lane, j) = thread_sums[j];
  __syncthreads();
  auto const first = static_cast<std::int64_t>(blockIdx.x) * 32 * n;
  for (int i = static_cast<int>(threadIdx.x); i < 32 * n && first + i < columns; i += cuda_threads) {
    real sum = 0;
    for (int source_warp = 0; source_warp < warps; ++source_warp) sum += warp_sums[source_warp].of_column(i);
    sums[part * columns + first + i] = sum;
  }
}

/// The `f` of `sum_columns` for a matrix in memory.
template <int n, class stored, class real> struct elements_of_matrix {
  stored const* x;     // the first element of the matrix
  std::int64_t stride; // elements from one row to the next
  /// Loads the n elements that begin at this row and column.
  __device__ stored_pack<n, stored> load(std::int64_t row, std::int64_t column) const {
    return load_stored<n>(x + row * stride + column);
  }
  __device__ void operator()(stored_pack<n, stored> const& from, std::int64_t, std::int64_t, real (&values)[n]) const {
    from.unpack(values);
  }
};

/// The partial sums of several matrices (instances), and the destination of their sums over the parts.
template <class real> struct parts_to_sum {
  real const* x;                                // [instances, parts, width]
  real* y;                                      // [instances, width]
  std::int64_t width, stride, parts, instances; // `stride`: elements of x from the start of one part to the next
  std::int64_t adds; // whether the sums are added to y; 64 bits, so that the struct has no padding
};

/// The kernel of `start_sum_parts`: sets y to the sum of x over its parts, or adds this sum to y. Block (i, j, k)
/// handles 32 columns of instance k of entry j; its warps take the parts in turn.
template <class entries>
static __global__ void __launch_bounds__(cuda_threads) sum_parts_kernel(__grid_constant__ entries const operands) {
  using real = std::remove_cvref_t<decltype(*operands.entries[0].y)>;
  constexpr int warps = cuda_threads / 32;
  __shared__ real warp_sums[warps][32];
  auto const& entry = operands.entries[blockIdx.y];
  auto const first = static_cast<std::int64_t>(blockIdx.x) * 32, instance = static_cast<std::int64_t>(blockIdx.z);
  if (first >= entry.width || instance >= entry.instances) return; // all threads of the block
  auto const lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  auto const column = first + lane;
  real const* const x = entry.x + instance * entry.parts * entry.stride + column;
  real sum = 0;
  if (column < entry.width)
    for (std::int64_t part = warp; part < entry.parts; part += warps) sum += x[part * entry.stride];
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= entry.width) return;
  real total = 0;
  CT_UNROLL
  for (int source_warp = 0; source_warp < warps; ++source_warp) total += warp_sums[source_warp][lane];
  real& y = entry.y[instance * entry.width + column];
  y = entry.adds ? y + total : total;
}

/// Launches sum_parts_kernel for the first `count` entries of `operands.entries`, which are `parts_to_sum`. `count`: 1
/// to 65535. Each entry has 1 to 65535 instances, and a width of at least 1. Throws `error` if the launch fails.
template <class entries> void start_sum_parts(cuda_context& context, entries const& operands, int count) {
  std::int64_t width = 0, instances = 0;
  for (int i = 0; i < count; ++i) {
    width = operands.entries[i].width > width ? operands.entries[i].width : width;
    instances = operands.entries[i].instances > instances ? operands.entries[i].instances : instances;
  }
  dim3 const blocks(static_cast<unsigned>((width + 31) / 32), static_cast<unsigned>(count),
                    static_cast<unsigned>(instances));
  cuda_launch(context, blocks, cuda_threads, sum_parts_kernel<entries>, operands);
}

namespace detail {

/// A few `parts_to_sum` as one kernel argument.
template <class real, int count> struct parts_array { parts_to_sum<real> entries[count]; };

} // namespace detail

/// The needs of a call to `sum_columns`, for a matrix [rows, columns]. `sums`: the extent of y, [columns] or [parts,
/// columns].
constexpr kernel_needs needs_of_sum_columns(std::int64_t rows, std::int64_t columns, operand_extent const& sums) {
  if (sums.shape.rank == 2) return {};
  return {.scratch = row_parts(rows) * columns * size_of(sums.type), .launches = 2};
}

/// y = the sums of the columns of a matrix [rows, columns], whose elements `f` computes (column_sums_kernel), n at a
/// time; n must divide `columns`. y is [columns], the sums over all rows, or [parts, columns], the sums over each part
/// (`row_partition`). If `add`, sums over all rows are added to y; `add` does not apply to [parts, columns]. A sum over
/// all rows is computed in parts that depend only on the shape, so the result is reproducible. The call must have the
/// scratch memory that `needs_of_sum_columns` returns. Throws `error` if a launch fails.
template <int n, class function, class real>
void sum_columns(call const& c, function const& f, std::int64_t rows, std::int64_t columns, tensor<real> y, bool add) {
  auto& context = *c.parameters.context;
  bool const stays_in_parts = y.shape().rank == 2;
  auto const parts = stays_in_parts ? y.shape().extent[0] : row_parts(rows);
  auto* const sums = stays_in_parts ? y.data : c.scratch_as<real>();
  dim3 const blocks(static_cast<unsigned>((columns + 32 * n - 1) / (32 * n)), static_cast<unsigned>(parts));
  cuda_launch(context, blocks, cuda_threads, column_sums_kernel<n, real, function>, f, row_partition(rows, parts),
              columns, sums);
  if (stays_in_parts) return;
  start_sum_parts(context, detail::parts_array<real, 1>{{{sums, y.data, columns, columns, parts, 1, add ? 1 : 0}}}, 1);
}

} // namespace constrain
