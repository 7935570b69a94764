#pragma once

#include "constrain/policy/slot.hpp"

/// Data parallelism: every process trains on its own part of each window, and gradients are summed over all.
namespace constrain::inline CONSTRAIN_VARIANT::parallel {

/// One process.
struct none {
  using slot = slot_of::parallelism;
  static constexpr char const* name = "parallel::none";
  static constexpr bool distributed = false;
  static constexpr int shards = 1;
};

/// Each process holds everything (Li et al. 2020). Any number of processes.
struct ddp {
  using slot = slot_of::parallelism;
  static constexpr char const* name = "parallel::ddp";
  static constexpr bool distributed = true;
  static constexpr int shards = 1;
};

/// Stage 3 (Rajbhandari et al. 2020, "ZeRO"): parameters, gradients and optimizer states are cut over `ranks`
/// processes; a block's parameters are gathered just before their use and freed after it. A run has any multiple of
/// `ranks` processes: the groups hold the same.
template <int stage_, int ranks> struct zero {
  using slot = slot_of::parallelism;
  static constexpr char const* name = "parallel::zero";
  static constexpr bool distributed = true;
  static constexpr int stage = stage_;
  static constexpr int shards = ranks;
};

} // namespace constrain::parallel
