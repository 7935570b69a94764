#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/held.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/comm/communicator.hpp"
#include "constrain/train/batch.hpp"
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
      std::unique_ptr<communicator>(new self); // the ranks that together hold a tensor, this rank included
  bool same_data = false;                      // all ranks train on the same batches: tensor parallelism

  /// Of how many parts of the data this rank trains on one, and on which one.
  int parts() const { return same_data ? 1 : world->size(); }
  int part() const { return same_data ? 0 : world->rank(); }

  /// If ranks hold a tensor together, every forward pass is collective: throws `error` on all ranks unless all ranks are about
  /// to make the same number of forward passes (`passes`). `call`: the caller, for the error.
  void come_to(joint_call call, std::int64_t passes) const {
    if (group->size() > 1) check_passes(*world, call, passes);
  }

  /// `take` reads this rank's part of a batch `b` and returns its number of valid labels: the sum over all parts. Throws
  /// on all ranks if `take` throws on one, if `b` is of different corpora, or if ranks that train on the same data have
  /// different batches. Collective.
  std::int64_t sum_of_parts(joint_call call, function_ref<std::int64_t()> take, batch const& b) const;
};

/// The communicators of this process: a single rank unless `distributed` and built with MPI. `shards`: ranks in a
/// group of ZeRO. `tensor`: ranks over which layers are divided; 1: none are. `deadline`: seconds to wait for other
/// ranks. Throws `error` if the world size is not a multiple of `shards`, or not `tensor`, or if the deadline is not in
/// (0, 1e9].
template <bool distributed>
ranks find_ranks([[maybe_unused]] std::int64_t shards, [[maybe_unused]] std::int64_t tensor,
                 [[maybe_unused]] double deadline) {
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
    if (tensor > 1 && r.world->size() != tensor)
      throw error({"parallel::tensor divides layers over ", tensor, " ranks, but there are ", r.world->size(),
                   "; start ", tensor});
    r.group = r.world->groups_of(static_cast<int>(tensor > 1 ? tensor : shards));
    r.same_data = tensor > 1;
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
