#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/collective/collective.hpp"

#include <algorithm>
#include <cstring>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// A range of bytes for each rank: its offset and length.
struct byte_ranges {
  std::int64_t offset[communicator::maximum_size];
  std::int64_t length[communicator::maximum_size];
};

/// to[i] = the sum over ranks of parts[rank * stride + i], for i < `count`; if `add`, the sum is added to to[i]
/// instead. The terms are added in rank order, so that the sums are bit-identical on all ranks.
template <class stored>
void add_in_order(stored const* parts, std::int64_t stride, int ranks, std::int64_t count, stored* to, bool add) {
  for_elements(count, [=](std::int64_t i) {
    arithmetic<stored> sum = parts[i];
    for (int rank = 1; rank < ranks; ++rank) sum += parts[rank * stride + i];
    to[i] = add ? to[i] + sum : sum;
  });
}

} // namespace detail

template <> struct kernel<op::all_gather, cpu> {
  template <class stored>
  static void run(call_of<op::all_gather> const& c, tensor<stored const> shard, tensor<stored> full) {
    auto& group = *c.parameters.zero;
    shard_map const map{full.count, group.size(), c.options.chunk};
    detail::byte_ranges ranges;
    for (int rank = 0; rank < group.size(); ++rank) {
      ranges.offset[rank] = map.begin(rank) * static_cast<std::int64_t>(sizeof(stored));
      ranges.length[rank] = map.length(rank) * static_cast<std::int64_t>(sizeof(stored));
    }
    std::copy_n(shard.data, map.length(group.rank()), full.data + map.begin(group.rank()));
    group.all_gather(reinterpret_cast<std::byte*>(full.data), ranges.offset, ranges.length);
  }
};

template <> struct kernel<op::local_shard, cpu> {
  template <class stored>
  static void run(call_of<op::local_shard> const& c, tensor<stored const> full, tensor<stored> shard) {
    shard_map const map{full.count, c.options.shards, c.options.chunk};
    auto const rank = c.parameters.zero->rank();
    std::copy_n(full.data + map.begin(rank), map.length(rank), shard.data);
    std::fill(shard.data + map.length(rank), shard.data + shard.count, stored(0)); // padding
  }
};

template <> struct kernel<op::reduce_scatter, cpu> {
  template <class stored>
  static void run(call_of<op::reduce_scatter> const& c, tensor<stored const> gradient, tensor<stored> shard,
                  tensor<stored> buffer) {
    auto& data_group = *c.parameters.data;
    shard_map const map{gradient.count, c.options.shards};
    auto const ranks = data_group.size();
    auto const shard_length = map.length(data_group.rank() % map.shards);
    auto const slice = buffer.count / ranks;
    detail::byte_ranges ranges;
    for (std::int64_t first = 0; first < map.stored(); first += slice) {
      for (int rank = 0; rank < ranks; ++rank) {
        auto const shard_index = rank % map.shards;
        ranges.offset[rank] = map.begin(shard_index) * static_cast<std::int64_t>(sizeof(stored));
        ranges.length[rank] = std::clamp<std::int64_t>(map.length(shard_index) - first, 0, slice) *
                              static_cast<std::int64_t>(sizeof(stored));
      }
      // The base address includes `first`, so the offsets are the offsets of the shards in every slice.
      data_group.all_to_all(reinterpret_cast<std::byte const*>(gradient.data + first), ranges.offset, ranges.length,
                            reinterpret_cast<std::byte*>(buffer.data),
                            slice * static_cast<std::int64_t>(sizeof(stored)));
      detail::add_in_order(buffer.data, slice, ranks, std::clamp<std::int64_t>(shard_length - first, 0, slice),
                           shard.data + first, c.add_to(0));
    }
    // Every rank stores the same number of elements, so a shorter shard is padded with zeros.
    std::fill(shard.data + shard_length, shard.data + shard.count, stored(0));
  }
};

namespace detail {

/// Sums y over the ranks, in place and in rank order. `buffer`: the exchange buffer.
template <class stored> void all_reduce(communicator& ranks, tensor<stored> y, tensor<stored> buffer) {
  if (ranks.size() == 1) return;
  auto const block = buffer.count / ranks.size() * ranks.size(); // maximum number of elements per exchange
  byte_ranges ranges;
  for (std::int64_t first = 0; first < y.count; first += block) {
    shard_map const map{std::min(block, y.count - first), ranks.size(), 1};
    for (int rank = 0; rank < ranks.size(); ++rank) {
      ranges.offset[rank] = map.begin(rank) * static_cast<std::int64_t>(sizeof(stored));
      ranges.length[rank] = map.length(rank) * static_cast<std::int64_t>(sizeof(stored));
    }
    auto* const begin = reinterpret_cast<std::byte*>(y.data + first);
    auto const slice = map.stored();
    ranks.all_to_all(begin, ranges.offset, ranges.length, reinterpret_cast<std::byte*>(buffer.data),
                     slice * static_cast<std::int64_t>(sizeof(stored)));
    add_in_order(buffer.data, slice, ranks.size(), map.length(ranks.rank()), y.data + first + map.begin(ranks.rank()),
                 false);
    ranks.all_gather(begin, ranges.offset, ranges.length);
  }
}

} // namespace detail

template <> struct kernel<op::all_reduce, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const>, tensor<stored> y, tensor<stored> buffer) {
    detail::all_reduce(*c.parameters.data, y, buffer);
  }
};

namespace detail {

/// All-gather of `count` elements per rank: gathered[rank * count + i] = local[i] of that rank, for i < `count`.
/// `count` is the same on every rank; `gathered` has `ranks.size() * count` elements. `local` may be this rank's range
/// of `gathered`.
template <class stored>
void gather_equal_counts(communicator& ranks, stored const* local, std::int64_t count, stored* gathered) {
  byte_ranges ranges;
  auto const bytes = count * static_cast<std::int64_t>(sizeof(stored));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    ranges.offset[rank] = rank * bytes;
    ranges.length[rank] = bytes;
  }
  if (auto* const destination = gathered + ranks.rank() * count; destination != local)
    std::copy_n(local, count, destination);
  ranks.all_gather(reinterpret_cast<std::byte*>(gathered), ranges.offset, ranges.length);
}

} // namespace detail

template <> struct kernel<op::gather_ranks, cpu> {
  template <class stored> static void run(call const& c, tensor<stored const> local, tensor<stored> gathered) {
    detail::gather_equal_counts(*c.parameters.zero, local.data, local.count, gathered.data);
  }
};

template <> struct kernel<op::all_reduce_small, cpu> {
  static_assert(op::all_reduce_small::maximum_ranks == communicator::maximum_size);

  template <class stored>
  static void run(call const& c, tensor<stored const>, tensor<stored> y, tensor<stored> gathered) {
    auto& ranks = *c.parameters.data;
    if (ranks.size() == 1) return;
    detail::gather_equal_counts(ranks, y.data, y.count, gathered.data);
    detail::add_in_order(gathered.data, y.count, ranks.size(), y.count, y.data, false);
  }
};

} // namespace constrain
