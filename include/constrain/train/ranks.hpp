#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/held.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/comm/communicator.hpp"
#if defined(CONSTRAIN_WITH_MPI)
#include "constrain/comm/mpi.hpp"
#endif

#include <cstdint>
#include <memory>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A run's communicators.
struct ranks {
  held<communicator> world = std::unique_ptr<communicator>(new self); // all ranks
  held<communicator> group =
      std::unique_ptr<communicator>(new self); // the ranks that hold the shards of a tensor, this rank included

  /// With sharded parameters every forward pass is collective: throws `error` on all ranks unless all ranks are about
  /// to make the same number of forward passes (`passes`). `call`: the caller, for the error.
  void come_to(joint_call call, std::int64_t passes) const {
    if (group->size() > 1) check_passes(*world, call, passes);
  }
};

/// The communicators of this process: a single rank unless `distributed` and built with MPI. `shards`: ranks in a
/// group. `deadline`: seconds to wait for other ranks. Throws `error` if the world size is not a multiple of `shards`
/// or the deadline is not in (0, 1e9].
template <bool distributed> ranks find_ranks([[maybe_unused]] std::int64_t shards, [[maybe_unused]] double deadline) {
  ranks r;
#if defined(CONSTRAIN_WITH_MPI)
  if constexpr (distributed) {
    bool const possible = deadline > 0 && deadline <= 1e9;
    r.world = std::make_unique<mpi>(possible ? deadline : 1800);
    agreed(*r.world, joint_call::construction, [&] {
      if (!possible)
        throw error({"a run's .deadline is ", std::to_string(deadline), " seconds; give more than 0 and at most 1e9"});
    });
    if (r.world->size() % shards != 0)
      throw error({"parallel::zero shards over groups of ", shards, " ranks, but there are ", r.world->size(),
                   "; start a multiple of ", shards});
    r.group = r.world->groups_of(static_cast<int>(shards));
  }
#endif
  return r;
}

/// Broadcast: returns rank 0's `mine` on every rank. Collective.
double of_rank_0(communicator& world, double mine);

/// The result of `find_lowest`.
struct lowest_of_ranks {
  std::int64_t value = 0; // the minimum over all ranks
  int ranks = 0;          // number of ranks that have the minimum
};
/// The minimum of `mine` over all ranks, and the number of ranks that have it. Collective.
lowest_of_ranks find_lowest(communicator& world, std::int64_t mine);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/ranks.ipp"
#endif
