#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/cuda/multi_tensor.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/collective/shard_map.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr int square_warps = cuda_threads / 32;   // warps of a block; each sums one chunk at a time
inline constexpr int chunks_of_block = 4 * square_warps; // chunks that a block of square_chunks_kernel handles

/// One gradient of a multi-tensor launch.
template <class stored> struct squares_entry {
  stored const* gradient;
  std::int64_t elements; // of one tensor
  unsigned tensors;      // number of tensors stacked in the gradient
  unsigned first_block;  // index of the gradient's first block
  double* sums;          // sum of the squares of each chunk of each tensor
  int index;             // index of the gradient in `squares`
  int is_first_write;    // whether the call is the first write in a run, which must define all elements of `squares`

  /// Number of chunks of all tensors.
  CT_HOST_DEVICE std::int64_t chunks() const { return tensors * norm_chunks(elements); }
};

/// The sum of the squares of elements [begin, end) of a tensor, at most one chunk, computed by the lanes of a warp. The
/// order of the additions does not depend on the address of the tensor.
template <class stored> __device__ double sum_of_squares(stored const* tensor, std::int64_t begin, std::int64_t end) {
  constexpr int n = pack_of<stored>, packs = static_cast<int>(norm_chunk) / (32 * n);
  auto const first = begin + static_cast<std::int64_t>(threadIdx.x % 32) * n;
  double sum = 0;
  bool const aligned = reinterpret_cast<std::uintptr_t>(tensor + begin) % 16 == 0;
  if (end - begin == norm_chunk && aligned) {
    stored_pack<n, stored> pack[packs];
    CT_UNROLL
    for (int k = 0; k < packs; ++k) pack[k] = load_stored<n>(tensor + first + k * 32 * n);
    CT_UNROLL
    for (int k = 0; k < packs; ++k) {
      double values[n];
      pack[k].unpack(values);
      CT_UNROLL
      for (int j = 0; j < n; ++j) sum += values[j] * values[j];
    }
  } else {
    CT_KEEP_LOOP
    for (auto i = first; i < end; i += 32 * n) {
      double values[n]{};
      if (aligned && i + n <= end) load_pack(tensor + i, values);
      else
        for (int j = 0; j < n && i + j < end; ++j) values[j] = tensor[i + j];
      CT_UNROLL
      for (int j = 0; j < n; ++j) sum += values[j] * values[j];
    }
  }
  return warp_sum(sum);
}

} // namespace detail

// entry.sums[k] = the sum of the squares of chunk k of a gradient; one warp per chunk. If the call of an entry is the
// first write in a run, sets the `gradients` elements of `squares` to 0; gradient_norm_squared_kernel then writes one
// element per entry.
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    square_chunks_kernel(multi_tensor<detail::squares_entry<stored>> tensors, double* squares, std::int64_t gradients) {
  auto const& entry = tensors.entry_of_block(blockIdx.x);
  if (entry.is_first_write && blockIdx.x == entry.first_block)
    for (std::int64_t i = threadIdx.x; i < gradients; i += cuda_threads) squares[i] = 0;
  auto const tensor_chunks = static_cast<unsigned>(norm_chunks(entry.elements)), chunks = tensor_chunks * entry.tensors;
  auto const first = (blockIdx.x - entry.first_block) * detail::chunks_of_block;
  auto const last = first + detail::chunks_of_block < chunks ? first + detail::chunks_of_block : chunks;
  CT_KEEP_LOOP
  for (auto chunk = first + threadIdx.x / 32; chunk < last; chunk += detail::square_warps) {
    auto const tensor = chunk / tensor_chunks;
    auto const begin = (chunk - tensor * tensor_chunks) * norm_chunk;
    auto const end = begin + norm_chunk < entry.elements ? begin + norm_chunk : entry.elements;
    auto const sum = detail::sum_of_squares(entry.gradient + tensor * entry.elements, begin, end);
    if (threadIdx.x % 32 == 0) entry.sums[chunk] = sum;
  }
}

/// Adds the chunk sums of each tensor, then the sums of the tensors, in an order that depends only on the numbers of
/// chunks and tensors. Each block handles one gradient.
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    gradient_norm_squared_kernel(multi_tensor<detail::squares_entry<stored>> tensors, double* squares) {
  constexpr int loads_in_flight = 16;
  __shared__ block_reduction<double>::memory shared;
  auto const& entry = tensors.entries[blockIdx.x];
  auto const chunks = norm_chunks(entry.elements);
  double total = 0;
  CT_KEEP_LOOP
  for (unsigned tensor = 0; tensor < entry.tensors; ++tensor) {
    double const* const sums = entry.sums + tensor * chunks;
    double sum = 0;
    CT_KEEP_LOOP
    for (auto k = static_cast<std::int64_t>(threadIdx.x); k < chunks; k += loads_in_flight * cuda_threads) {
      double loaded[loads_in_flight];
      CT_UNROLL
      for (int j = 0; j < loads_in_flight; ++j)
        loaded[j] = k + j * cuda_threads < chunks ? sums[k + j * cuda_threads] : 0;
      CT_UNROLL
      for (int j = 0; j < loads_in_flight; ++j) sum += loaded[j];
    }
    total += block_reduction<double>{shared}.sum(sum);
  }
  if (threadIdx.x == 0) squares[entry.index] = total;
}

template <class architecture> struct kernel<op::gradient_norm_squared, cuda<architecture>> {
  template <class stored> using tensors_of = multi_tensor<detail::squares_entry<stored>>;

  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    auto const chunks = in[0].instances() * norm_chunks(in[0].shape.elements());
    return {.scratch = chunks * size_of(dtype::f64),
            .launches = 2,
            .merged = tensors_of<float>::capacity,
            .merges_sums = true};
  }
  template <class stored>
  static void run(call_of<op::gradient_norm_squared> const& c, tensor<stored const> gradient, tensor<double> squares) {
    static_assert(tensors_of<stored>::capacity == tensors_of<float>::capacity);
    auto& context = *c.parameters.context;
    auto& tensors = context.template pending<tensors_of<stored>>(c);
    auto const elements = gradient.shape().elements();
    tensors.add(c, {gradient.data, elements, static_cast<unsigned>(gradient.count / elements), 0,
                    c.scratch_as<double>(), static_cast<int>(c.options.index), c.add_to(0) ? 0 : 1});
    if (c.more_tensors_follow) return;
    auto const blocks = tensors.place_blocks(
        [](auto const& entry) { return (entry.chunks() + detail::chunks_of_block - 1) / detail::chunks_of_block; });
    auto const entries = static_cast<unsigned>(tensors.count);
    cuda_launch(context, dim3(blocks), cuda_threads, square_chunks_kernel<stored>, tensors, squares.data,
                squares.count);
    cuda_launch(context, dim3(entries), cuda_threads, gradient_norm_squared_kernel<stored>, tensors, squares.data);
  }
};

// sums[t * chunks + k] = the sum of the squares of chunk k of tensor t; one warp per chunk. The first `used` elements
// of a tensor are summed. Consecutive tensors begin `stride` elements apart. Blocks with the same blockIdx.y handle the
// tensors blockIdx.y, blockIdx.y + gridDim.y, ...
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    shard_squares_kernel(stored const* stack, std::int64_t stride, std::int64_t tensors, std::int64_t used,
                         std::int64_t chunks, double* sums) {
  auto const k = static_cast<std::int64_t>(blockIdx.x) * detail::square_warps + threadIdx.x / 32;
  if (k >= chunks) return;
  auto const begin = k * norm_chunk;
  auto const end = begin + norm_chunk < used ? begin + norm_chunk : used;
  CT_KEEP_LOOP
  for (auto t = static_cast<std::int64_t>(blockIdx.y); t < tensors; t += gridDim.y) {
    auto const sum = detail::sum_of_squares(stack + t * stride, begin, end);
    if (threadIdx.x % 32 == 0) sums[t * chunks + k] = sum;
  }
}

template <class architecture> struct kernel<op::chunk_squares, cuda<architecture>> {
  template <class stored>
  static void run(call_of<op::chunk_squares> const& c, tensor<stored const> shard, tensor<double> sums) {
    shard_map const map{c.options.elements, c.options.shards, c.options.chunk};
    auto const used = map.length(map.shards > 1 ? c.parameters.zero->rank() : 0);
    auto const chunks = norm_chunks(shard.shape().elements()), tensors = sums.count / chunks;
    auto const blocks = static_cast<unsigned>((chunks + detail::square_warps - 1) / detail::square_warps);
    cuda_launch(*c.parameters.context, dim3(blocks, static_cast<unsigned>(tensors < 65535 ? tensors : 65535)),
                cuda_threads, shard_squares_kernel<stored>, shard.data, c.options.stride, tensors, used, chunks,
                sums.data);
  }
};

// squares[index] = the sum of the chunk sums of all shards, [shards, tensors, chunks], in the order of
// gradient_norm_squared_kernel: each thread of the single block adds the same chunks of the full tensor as in that
// kernel. The sums of chunks beyond the last element are 0. `is_first_write`: whether the call is the first write in a
// run, which must define all `gradients` elements of `squares`.
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    chunk_sum_kernel(stored const* sums, int shards, std::int64_t tensors, int chunks, bool is_first_write,
                     std::int64_t index, std::int64_t gradients, stored* squares) {
  __shared__ typename block_reduction<stored>::memory shared;
  if (is_first_write)
    for (std::int64_t i = threadIdx.x; i < gradients; i += cuda_threads) squares[i] = 0;
  stored total = 0;
  for (std::int64_t tensor = 0; tensor < tensors; ++tensor) {
    stored sum = 0;
    for (int k = static_cast<int>(threadIdx.x); k < shards * chunks; k += cuda_threads)
      sum += sums[(k / chunks * tensors + tensor) * chunks + k % chunks];
    total += block_reduction<stored>{shared}.sum(sum);
  }
  if (threadIdx.x == 0) squares[index] = total; // after the barriers of the reduction
}

template <class architecture> struct kernel<op::chunk_sum, cuda<architecture>> {
  static void run(call_of<op::chunk_sum> const& c, tensor<double const> sums, tensor<double> squares) {
    auto const& extent = sums.shape().extent;
    cuda_launch(*c.parameters.context, dim3(1), cuda_threads, chunk_sum_kernel<double>, sums.data,
                static_cast<int>(extent[0]), extent[1], static_cast<int>(extent[2]), !c.add_to(0), c.options.index,
                squares.count, squares.data);
  }
};

// Computes norm_and_scale = [norm, scale] from the squared norms in one thread. `maximum`: null, or points to 0, if
// gradients are not clipped. `loss_scale`: null if the loss is not scaled.
template <class stored>
static __global__ void clip_coefficient_kernel(stored const* squares, std::int64_t count, stored const* maximum,
                                               stored const* loss_scale, stored* norm_and_scale) {
  stored sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += squares[i];
  stored const loss_factor = loss_scale == nullptr ? stored(1) : *loss_scale;
  stored const norm = math::sqrt(sum) / loss_factor, limit = maximum == nullptr ? stored(0) : *maximum;
  stored const coefficient = limit / (norm + 1e-6);
  stored const scale = (limit > 0 && coefficient < 1 ? coefficient : stored(1)) / loss_factor;
  // The update may multiply in fp32, so the scale must also be finite in fp32.
  bool const usable = math::finite(norm) && math::finite(static_cast<float>(scale));
  norm_and_scale[0] = usable || !math::finite(norm) ? norm : math::infinity<stored>; // infinity: the update is skipped
  norm_and_scale[1] = !usable ? stored(0) : scale > op::smallest_scale ? scale : stored(op::smallest_scale);
}

template <class architecture> struct kernel<op::clip_coefficient, cuda<architecture>> {
  static void run(call const& c, tensor<double const> squares, tensor<double> norm_and_scale) {
    run(c, squares, tensor<double const>{}, tensor<double const>{}, norm_and_scale);
  }
  static void run(call const& c, tensor<double const> squares, tensor<double const> maximum,
                  tensor<double> norm_and_scale) {
    run(c, squares, maximum, tensor<double const>{}, norm_and_scale);
  }
  static void run(call const& c, tensor<double const> squares, tensor<double const> maximum,
                  tensor<double const> loss_scale, tensor<double> norm_and_scale) {
    cuda_launch(*c.parameters.context, dim3(1), 1, clip_coefficient_kernel<double>, squares.data, squares.count,
                maximum.data, loss_scale.data, norm_and_scale.data);
  }
};

} // namespace constrain
