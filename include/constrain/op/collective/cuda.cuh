#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/collective/collective.hpp"
#include "constrain/op/copy/kernel.hpp"
#if defined(CONSTRAIN_WITH_NCCL)
#include "constrain/device/cuda/nccl_ranks.cuh"
#endif

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Copies `count` elements in device memory, in stream order. Does nothing if `from` is `to`. Throws `error` if CUDA
/// fails.
template <class stored>
void copy_on_device(cuda_context const& context, stored const* from, std::int64_t count, stored* to) {
  if (count == 0 || from == to) return;
  cuda_check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(stored), cudaMemcpyDeviceToDevice,
                             context.stream()),
             "copy a tensor");
}
/// Sets the padding of a shard, the elements from `begin` on, to 0, in stream order. Throws `error` if CUDA fails.
template <class stored> void clear_padding(cuda_context const& context, tensor<stored> shard, std::int64_t begin) {
  if (begin == shard.count) return;
  auto const bytes = static_cast<std::size_t>(shard.count - begin) * sizeof(stored);
  cuda_check(cudaMemsetAsync(shard.data + begin, 0, bytes, context.stream()), "clear a shard's padding");
}

} // namespace detail

template <class architecture> struct kernel<op::local_shard, cuda<architecture>> {
  template <class stored>
  static void run(call_of<op::local_shard> const& c, tensor<stored const> full, tensor<stored> shard) {
    shard_map const map{full.count, c.options.shards, c.options.chunk};
    auto const rank = c.parameters.zero->rank();
    detail::copy_on_device(*c.parameters.context, full.data + map.begin(rank), map.length(rank), shard.data);
    detail::clear_padding(*c.parameters.context, shard, map.length(rank));
  }
};

#if defined(CONSTRAIN_WITH_NCCL)

namespace detail {

/// Loop body of `sum_in_rank_order`: iteration i handles n elements, from element n * i on; the last may handle fewer.
/// If n > 1, the arrays must be aligned (are_aligned), and n must divide `stride`.
template <int n, class stored> struct rank_order_packs {
  stored const *local, *parts;
  std::int64_t stride, count;
  int rank, ranks;
  stored* to;
  bool add;

  __device__ void operator()(std::int64_t i) const {
    auto const first = i * n;
    bool const is_complete = first + n <= count;
    arithmetic<stored> sums[n], terms[n];
    auto const load = [&](stored const* from, arithmetic<stored>(&x)[n]) {
      if (is_complete) load_pack(from + first, x);
      else load_elements(from + first, static_cast<int>(count - first), x);
    };
    load(rank == 0 ? local : parts, sums);
    CT_KEEP_LOOP
    for (int r = 1; r < ranks; ++r) {
      load(r == rank ? local : parts + r * stride, terms);
      CT_UNROLL
      for (int j = 0; j < n; ++j) sums[j] += terms[j];
    }
    if (add) {
      load(to, terms);
      CT_UNROLL
      for (int j = 0; j < n; ++j) sums[j] = terms[j] + sums[j];
    }
    if (is_complete) store_pack(sums, to + first);
    else store_elements(sums, static_cast<int>(count - first), to + first);
  }
};

/// to[i] = local[i] plus parts[r * stride + i] of every other rank r, for i in [0, count); if `add`, this sum is added
/// to to[i] instead. The terms are added in rank order, so that the sums are bit-identical on all ranks. Only enqueues
/// the kernel. Throws `error` if the launch fails.
template <class architecture, class stored>
void sum_in_rank_order(cuda<architecture> device, call const& c, nccl_group& ranks, stored const* local,
                       stored const* parts, std::int64_t stride, std::int64_t count, stored* to, bool add) {
  auto const start = [&]<int n>(std::integral_constant<int, n>) {
    for_elements(device, c, (count + n - 1) / n,
                 rank_order_packs<n, stored>{local, parts, stride, count, ranks.rank(), ranks.size(), to, add});
  };
  with_packs(stride, start, local, parts, to);
}

/// The number of elements that each rank of `ranks` has in the exchange buffer: a multiple of 8, so that the parts can
/// be accessed in packs; fewer than 8 only if the buffer has no room for 8 elements per rank.
template <class stored> std::int64_t part_of_buffer(tensor<stored> buffer, nccl_group const& ranks) {
  auto const elements = buffer.count / ranks.size();
  return elements < 8 ? elements : elements / 8 * 8;
}

/// The ranges of the shards of `map` that one exchange sends to each rank: at most `slice` elements of each shard, from
/// the shard's element `first` on. Rank r gets shard r % map.shards, because there may be more ranks than shards.
struct slice_of_shards {
  shard_map map;
  std::int64_t first, slice;

  std::int64_t begin(int rank) const { return map.begin(rank % map.shards) + first; }
  std::int64_t length(int rank) const {
    return std::clamp<std::int64_t>(map.length(rank % map.shards) - first, 0, slice);
  }
};

/// All-reduce of y on the device, in place and in rank order. `buffer`: the exchange buffer. Throws `error` if CUDA or
/// NCCL fails.
template <class architecture, class stored>
void all_reduce(cuda<architecture> device, call const& c, nccl_group& ranks, tensor<stored> y, tensor<stored> buffer) {
  auto const stream = c.parameters.context->stream();
  auto const block = part_of_buffer(buffer, ranks) * ranks.size(); // maximum number of elements per exchange
  for (std::int64_t first = 0; first < y.count; first += block) {
    shard_map const map{std::min(block, y.count - first), ranks.size(), 1};
    auto* const begin = y.data + first;
    ranks.all_to_all(stream, begin, map, buffer.data, map.stored());
    auto* const shard = begin + map.begin(ranks.rank());
    sum_in_rank_order(device, c, ranks, shard, buffer.data, map.stored(), map.length(ranks.rank()), shard, false);
    ranks.all_gather(stream, begin, map);
  }
}

} // namespace detail

template <class architecture> struct kernel<op::all_gather, cuda<architecture>> {
  template <class stored>
  static void run(call_of<op::all_gather> const& c, tensor<stored const> shard, tensor<stored> full) {
    auto& context = *c.parameters.context;
    auto const& group = *c.parameters.zero;
    shard_map const map{full.count, group.size(), c.options.chunk};
    detail::copy_on_device(context, shard.data, map.length(group.rank()), full.data + map.begin(group.rank()));
    if (group.size() > 1) context.ranks().zero().all_gather(context.stream(), full.data, map);
  }
};

template <class architecture> struct kernel<op::reduce_scatter, cuda<architecture>> {
  template <class stored>
  static void run(call_of<op::reduce_scatter> const& c, tensor<stored const> gradient, tensor<stored> shard,
                  tensor<stored> buffer) {
    auto& context = *c.parameters.context;
    auto& data_group = context.ranks().data();
    shard_map const map{gradient.count, c.options.shards};
    bool const ordered = context.ranks().ordered();
    auto const slice = ordered ? detail::part_of_buffer(buffer, data_group) : buffer.count;
    for (std::int64_t first = 0; first < map.stored(); first += slice) {
      detail::slice_of_shards const ranges{map, first, slice};
      if (!ordered) {
        data_group.reduce_scatter(context.stream(), gradient.data, ranges, buffer.data);
        copy_or_add(cuda<architecture>{}, c, ranges.length(data_group.rank()), shard.data + first, buffer.data);
        continue;
      }
      data_group.all_to_all(context.stream(), gradient.data, ranges, buffer.data, slice);
      detail::sum_in_rank_order(cuda<architecture>{}, c, data_group, gradient.data + ranges.begin(data_group.rank()),
                                buffer.data, slice, ranges.length(data_group.rank()), shard.data + first, c.add_to(0));
    }
    // Every rank stores the same number of elements, so a shorter shard is padded with zeros.
    detail::clear_padding(context, shard, map.length(data_group.rank() % map.shards));
  }
};

template <class architecture> struct kernel<op::all_reduce, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const>, tensor<stored> y, tensor<stored> buffer) {
    if (c.parameters.data->size() == 1) return;
    auto& context = *c.parameters.context;
    if (!context.ranks().ordered()) return context.ranks().data().all_reduce(context.stream(), y.data, y.count);
    detail::all_reduce(cuda<architecture>{}, c, context.ranks().data(), y, buffer);
  }
};

template <class architecture> struct kernel<op::gather_ranks, cuda<architecture>> {
  template <class stored> static void run(call const& c, tensor<stored const> local, tensor<stored> gathered) {
    auto& context = *c.parameters.context;
    if (c.parameters.zero->size() == 1) return detail::copy_on_device(context, local.data, local.count, gathered.data);
    context.ranks().zero().all_gather(context.stream(), local.data, local.count, gathered.data);
  }
};

template <class architecture> struct kernel<op::all_reduce_small, cuda<architecture>> {
  static_assert(op::all_reduce_small::maximum_ranks == communicator::maximum_size);

  template <class stored>
  static void run(call const& c, tensor<stored const>, tensor<stored> y, tensor<stored> gathered) {
    if (c.parameters.data->size() == 1) return;
    auto& ranks = c.parameters.context->ranks().data();
    ranks.all_gather(c.parameters.context->stream(), y.data, y.count, gathered.data);
    detail::sum_in_rank_order(cuda<architecture>{}, c, ranks, y.data, gathered.data, y.count, y.count, y.data, false);
  }
};

#endif

} // namespace constrain
