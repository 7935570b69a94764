#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/collective/collective.hpp"
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

/// to[i] = local[i] plus parts[r * stride + i] of every other rank r; if `add`, this sum is added to to[i] instead. The
/// terms are added in rank order, so that the sums are bit-identical on all ranks. `rank`: this rank.
template <class stored> struct sum_in_rank_order {
  stored const *local, *parts;
  std::int64_t stride;
  int rank, ranks;
  stored* to;
  bool add;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    arithmetic<stored> const local_term = local[i];
    arithmetic<stored> sum = rank == 0 ? local_term : arithmetic<stored>(parts[i]);
    CT_KEEP_LOOP
    for (int r = 1; r < ranks; ++r) sum += r == rank ? local_term : arithmetic<stored>(parts[r * stride + i]);
    to[i] = add ? to[i] + sum : sum;
  }
};

/// to[i] = sum[i]; if `add`, sum[i] is added to to[i] instead.
template <class stored> struct store_sum {
  stored const* sum;
  stored* to;
  bool add;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    to[i] = add ? to[i] + arithmetic<stored>(sum[i]) : arithmetic<stored>(sum[i]);
  }
};

/// The ranges of the shards of `map` that one exchange sends to each rank: at most `slice` elements of each shard, from
/// the shard's element `first` on. Rank r gets shard r % map.shards: there may be more ranks than shards.
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
  auto const block = buffer.count / ranks.size() * ranks.size(); // maximum number of elements per exchange
  for (std::int64_t first = 0; first < y.count; first += block) {
    shard_map const map{std::min(block, y.count - first), ranks.size(), 1};
    auto* const begin = y.data + first;
    ranks.all_to_all(stream, begin, map, buffer.data, map.stored());
    auto* const shard = begin + map.begin(ranks.rank());
    for_elements(device, c, map.length(ranks.rank()),
                 sum_in_rank_order<stored>{shard, buffer.data, map.stored(), ranks.rank(), ranks.size(), shard, false});
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
    auto const slice = ordered ? buffer.count / data_group.size() : buffer.count;
    for (std::int64_t first = 0; first < map.stored(); first += slice) {
      detail::slice_of_shards const ranges{map, first, slice};
      if (!ordered) {
        data_group.reduce_scatter(context.stream(), gradient.data, ranges, buffer.data);
        for_elements(cuda<architecture>{}, c, ranges.length(data_group.rank()),
                     detail::store_sum<stored>{buffer.data, shard.data + first, c.add_to(0)});
        continue;
      }
      data_group.all_to_all(context.stream(), gradient.data, ranges, buffer.data, slice);
      for_elements(cuda<architecture>{}, c, ranges.length(data_group.rank()),
                   detail::sum_in_rank_order<stored>{gradient.data + ranges.begin(data_group.rank()), buffer.data,
                                                     slice, data_group.rank(), data_group.size(), shard.data + first,
                                                     c.add_to(0)});
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
    for_elements(
        cuda<architecture>{}, c, y.count,
        detail::sum_in_rank_order<stored>{y.data, gathered.data, y.count, ranks.rank(), ranks.size(), y.data, false});
  }
};

#endif

} // namespace constrain
