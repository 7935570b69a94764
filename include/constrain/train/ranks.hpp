#pragma once

#include "constrain/base/checked_unique_ptr.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/comm/communicator.hpp"
#include "constrain/policy/parallel.hpp"
#include "constrain/train/batch.hpp"
#if defined(CONSTRAIN_WITH_MPI)
#include "constrain/comm/mpi.hpp"
#endif

#include <cstdint>
#include <memory>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A run's communicators. A tensor group consists of consecutive ranks, which divide the layers (tensor parallelism).
/// The ranks at the same position in their tensor groups train on different data, and are divided into the groups of
/// ZeRO.
struct ranks {
  checked_unique_ptr<communicator> world = std::unique_ptr<communicator>(new self); // all ranks
  checked_unique_ptr<communicator> storage_group =
      std::unique_ptr<communicator>(new self); // the ranks that together hold a tensor
  checked_unique_ptr<communicator> tensor = std::unique_ptr<communicator>(new self); // the ranks that divide the layers
  std::unique_ptr<communicator> data_group, zero_group;                              // null without tensor parallelism

  /// The ranks that train on different data and hold the same range of each layer as this rank.
  communicator& data() const { return data_group ? *data_group : *world; }
  /// The ranks of `data()` that together hold the shards of a tensor.
  communicator& zero() const { return zero_group ? *zero_group : *storage_group; }

  /// Calls `work`, which checks the arguments of `call`, passes its own argument to `check_same_work`, and then runs
  /// forward passes, which can be collective. If `storage_group` has a single rank, does no more. Otherwise, this
  /// function is collective: if a check fails on one rank, all ranks throw, and if a forward pass fails on some ranks
  /// only, the job ends (`rethrow_or_end_job`). `call`: the caller, for errors.
  void run_passes(joint_call call, function_ref<void(agreement&)> work) const;
  /// Checks that all ranks are about to run the same forward passes. Does nothing if `storage_group` has a single rank;
  /// otherwise, this function is collective, and throws `error` on all ranks unless all ranks pass the same `passes`,
  /// and the ranks of each tensor group pass equal arrays. `all`: the argument of `work` in `run_passes`. `call`: as in
  /// `run_passes`. `passes`: the number of samples or micro-batches to evaluate, of micro-batches to predict, or of
  /// tokens to generate.
  void check_same_work(agreement& all, joint_call call, std::int64_t passes, array_list const& inputs,
                       array_list const& labels = {}) const;
  /// Like the function above, for samples of a data set, or a prompt and the options of `generate`, with the hash
  /// `fingerprint`, which must be equal on the ranks of each tensor group.
  void check_same_work(agreement& all, joint_call call, std::int64_t passes, std::uint64_t fingerprint) const;

  /// The number of valid labels in the batch of all ranks. `copy_in` copies `b`, this rank's part of the batch, into
  /// the arena and returns its number of valid labels; the labels of a tensor group count once. Throws `error` on all
  /// ranks if `copy_in` throws on one rank, if parts come from different data sets or different positions in one, or if
  /// ranks that train on the same data have different batches. Collective.
  std::int64_t count_valid_labels(joint_call call, function_ref<std::int64_t()> copy_in, batch const& b) const;

private:
  /// Throws `error` on all ranks unless the ranks of each tensor group have equal arrays.
  void check_equal(joint_call call, array_list const& inputs, array_list const& labels) const;
  /// Throws `error` on all ranks unless the ranks of each tensor group have the same `hash` of their data.
  void check_equal(joint_call call, std::uint64_t hash) const;
};

namespace detail {

/// Forms the groups of the ranks in `r.world`. `policies`: the names of the policies. Throws `error` on all ranks if
/// their policies differ, or if the number of ranks does not allow these groups. Collective.
void form_groups(ranks& r, slot_of::parallelism const& p, std::string const& policies);

} // namespace detail

/// All ranks of the job if any of the sets of policies is parallel and the build has MPI, otherwise only this process.
/// `deadline`: seconds to wait for other ranks. Throws the errors of `mpi`'s constructor.
template <class... policy_sets> std::unique_ptr<communicator> find_world([[maybe_unused]] double deadline) {
#if defined(CONSTRAIN_WITH_MPI)
  if constexpr ((policy_sets::parallelism::value.distributed || ...)) return std::make_unique<mpi>(deadline);
  else
#endif
    return std::unique_ptr<communicator>(new self);
}

/// The communicators of this process. In a build without MPI, or without a parallel policy, each has a single rank.
/// Otherwise, this function uses MPI, is collective, and throws the errors of `mpi`'s constructor. It also throws
/// `error` if the policies differ between ranks, if the world size is not a multiple of the number of ranks that hold a
/// tensor together (with parallel::tensor: if it is not equal to this number), or if `deadline` is not in (0, 1e9].
/// `deadline`: seconds to wait for other ranks.
template <class policy_set> ranks find_ranks([[maybe_unused]] double deadline) {
  ranks r;
#if defined(CONSTRAIN_WITH_MPI)
  if constexpr (constexpr auto const& parallelism = policy_set::parallelism::value; parallelism.distributed) {
    bool const is_valid = detail::is_deadline(deadline);
    // Ranks with an invalid deadline get a communicator too, so that all ranks can agree on the error.
    r.world = find_world<policy_set>(is_valid ? deadline : 1800);
    agreed(*r.world, joint_call::construction, [&] {
      if (!is_valid)
        throw error({"run_options: .deadline is ", detail::number_text(deadline),
                     " seconds; give more than 0 and at most 1e9"});
    });
    detail::form_groups(r, parallelism, policy_set::name());
  }
#endif
  return r;
}

/// Broadcast: returns rank 0's `value` on every rank. Collective.
double broadcast_from_rank_0(communicator& world, double value);

/// The result of `find_lowest`.
struct lowest_of_ranks {
  std::int64_t value = 0; // the minimum over all ranks
  int count = 0;          // number of ranks that have the minimum
};
/// The minimum of `value` over all ranks, and the number of ranks that have it. Collective.
lowest_of_ranks find_lowest(communicator& world, std::int64_t value);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/ranks.ipp"
#endif
