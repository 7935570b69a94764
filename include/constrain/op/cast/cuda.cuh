#pragma once

#include "constrain/device/cuda/multi_tensor.cuh"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/cast/kernel.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// One tensor of a multi-tensor cast: `count` elements. `first_block`: index of the tensor's first block.
template <class from, class to> struct cast_entry {
  from const* x;
  to* y;
  std::int64_t count;
  unsigned first_block = 0, unused = 0; // unused: so that the struct has no padding
};

/// Packs that a thread casts; their loads are in flight together.
inline constexpr int cast_packs = 4;
/// Elements that a block casts, with n elements per pack.
template <int n> inline constexpr int cast_chunk = cast_packs* n* cuda_threads;

} // namespace detail

/// Casts several tensors in packs of n elements; each block handles a chunk of one tensor. An incomplete chunk is cast
/// one element at a time. If n > 1, all tensors must be aligned (are_aligned).
template <int n, class from, class to>
static __global__ void __launch_bounds__(cuda_threads)
    cast_kernel(__grid_constant__ multi_tensor<detail::cast_entry<from, to>> const tensors) {
  auto const& entry = tensors.entry_of_block(blockIdx.x);
  auto const begin = static_cast<std::int64_t>(blockIdx.x - entry.first_block) * detail::cast_chunk<n>;
  auto const* const x = entry.x + begin;
  auto* const y = entry.y + begin;
  auto const remaining = entry.count - begin;
  int const count = remaining < detail::cast_chunk<n> ? static_cast<int>(remaining) : detail::cast_chunk<n>;
  int const thread = static_cast<int>(threadIdx.x);
  if (count == detail::cast_chunk<n>) {
    stored_pack<n, from> packs[detail::cast_packs];
    CT_UNROLL
    for (int k = 0; k < detail::cast_packs; ++k) packs[k] = load_stored<n>(x + (k * cuda_threads + thread) * n);
    CT_UNROLL
    for (int k = 0; k < detail::cast_packs; ++k)
      store_pack(unpacked(packs[k]).values, y + (k * cuda_threads + thread) * n);
  } else {
    // Converts through `arithmetic<from>`, because the 16-bit types have no direct conversion to each other.
    CT_KEEP_LOOP
    for (int i = thread; i < count; i += cuda_threads) y[i] = arithmetic<from>(x[i]);
  }
}

/// One launch computes all merged calls.
template <class architecture> struct kernel<op::cast, cuda<architecture>> {
  template <class from, class to> using tensors_of = multi_tensor<detail::cast_entry<from, to>>;

  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) {
    return {.merged = tensors_of<float, float>::capacity};
  }
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    auto& context = *c.parameters.context;
    static_assert(tensors_of<from, to>::capacity == tensors_of<float, float>::capacity);
    auto& tensors = context.template pending<tensors_of<from, to>>(c);
    tensors.add(c, {x.data, y.data, y.count});
    if (c.more_tensors_follow) return;
    bool aligned = true;
    for (int i = 0; i < tensors.count; ++i)
      aligned = aligned && are_aligned(tensors.entries[i].x, tensors.entries[i].y);
    if (aligned) start<pack_of<from, to>>(context, tensors);
    else start<1>(context, tensors);
  }

private:
  template <int n, class from, class to> static void start(cuda_context& context, tensors_of<from, to>& tensors) {
    auto const blocks = tensors.place_blocks(
        [](auto const& entry) { return (entry.count + detail::cast_chunk<n> - 1) / detail::cast_chunk<n>; });
    if (blocks > 0) cuda_launch(context, dim3(blocks), cuda_threads, cast_kernel<n, from, to>, tensors);
  }
};

} // namespace constrain
