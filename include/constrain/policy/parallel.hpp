#pragma once

#include "constrain/policy/rule.hpp"

/// Data parallelism: every process trains on its own part of each batch, and gradients are summed over all processes.
namespace constrain::inline CONSTRAIN_VARIANT::parallel {

struct none;
struct ddp;
template <int stage, int ranks> struct zero;

} // namespace constrain::parallel

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of parallelism; is_slot.hpp explains its members.
struct parallelism {
  bool distributed = false; // whether several processes train together
  int stage = 3;            // the stage of ZeRO; only 3 is implemented
  int shards = 1;           // processes over which parameters, gradients and states are sharded; 1: not sharded
#if defined(CONSTRAIN_WITH_MPI)
  bool has_mpi = true; // whether the program is compiled with MPI
#else
  bool has_mpi = false; // whether the program is compiled with MPI
#endif
  friend constexpr bool operator==(parallelism const&, parallelism const&) = default;

  template <class...> using otherwise = parallel::none;
  template <class policy> struct named { using parallelism = policy; };
  using examples = policy_list<parallel::none, parallel::ddp, parallel::zero<3, 2>>;
  using refused = policy_list<parallel::zero<1, 2>, parallel::zero<3, 0>>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_parallelism, (said<parallelism> const& p), p.given <= 1,
                 "trainer: two parallel policies are given; keep parallel::ddp or parallel::zero<3, ranks>");
  CONSTRAIN_RULE(known_stage, (parallelism const& p), p.stage == 3,
                 "parallel::zero<stage, ranks>: only stage 3 is implemented; write parallel::zero<3, ranks> or "
                 "parallel::ddp");
  CONSTRAIN_RULE(some_shards, (parallelism const& p), p.shards >= 1,
                 "parallel::zero<stage, ranks>: a group has at least one rank; write parallel::zero<3, 2> or "
                 "parallel::ddp");
  CONSTRAIN_RULE(mpi_is_there, (parallelism const& p), !p.distributed || p.has_mpi,
                 "parallel: several processes need MPI, and this program is compiled without it; install "
                 "libopenmpi-dev and link constrain::mpi");
  using rules = rule_list<one_parallelism, known_stage, some_shards, mpi_is_there>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::parallel {

/// Training in one process.
struct none {
  using slot = slot_of::parallelism;
  static constexpr slot value{};
};

/// Distributed data parallelism (Li et al. 2020, as PyTorch's DDP): every process holds all parameters, gradients and
/// optimizer states. Works with any number of processes.
struct ddp {
  using slot = slot_of::parallelism;
  static constexpr slot value{.distributed = true};
};

/// ZeRO stage 3 (Rajbhandari et al. 2020), as PyTorch's fully sharded data parallelism: parameters, gradients and
/// optimizer states are sharded over groups of `ranks` processes; a parameter is gathered just before its use, and its
/// memory is free for other values afterwards. The number of processes is any multiple of `ranks`; every group holds
/// one full set of shards.
template <int stage, int ranks> struct zero {
  using slot = slot_of::parallelism;
  static constexpr slot value{.distributed = true, .stage = stage, .shards = ranks};
};

} // namespace constrain::parallel
