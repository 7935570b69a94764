#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/program/error.hpp"
#if defined(CONSTRAIN_WITH_MPI)
#include "constrain/comm/mpi.hpp"
#endif

#include <memory>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The processes of a run: all of them, and the group that holds the pieces of one whole.
struct ranks {
  std::unique_ptr<communicator> world = std::make_unique<self>();
  std::unique_ptr<communicator> group = std::make_unique<self>();
};

/// Throws `error` where the number of processes is no multiple of `shards`.
template <bool distributed> ranks find_ranks([[maybe_unused]] std::int64_t shards) {
  ranks r;
#if defined(CONSTRAIN_WITH_MPI)
  if constexpr (distributed) {
    r.world = std::make_unique<mpi>();
    if (r.world->size() % shards != 0)
      throw error("parallel::zero shards over groups of " + std::to_string(shards) + " ranks, and there are " +
                  std::to_string(r.world->size()) + "; start a multiple of " + std::to_string(shards));
    r.group = r.world->groups_of(static_cast<int>(shards));
  }
#endif
  return r;
}

/// The sum of a count over all ranks.
inline std::int64_t sum_over(communicator& world, std::int64_t mine) {
  if (world.size() == 1) return mine;
  std::int64_t all[communicator::maximum_size], offsets[communicator::maximum_size], lengths[communicator::maximum_size];
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets[rank] = rank * 8;
    lengths[rank] = 8;
  }
  all[world.rank()] = mine;
  world.all_gather(reinterpret_cast<std::byte*>(all), offsets, lengths);
  std::int64_t sum = 0;
  for (int rank = 0; rank < world.size(); ++rank) sum += all[rank];
  return sum;
}

} // namespace constrain
