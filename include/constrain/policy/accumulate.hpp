#pragma once

#include "constrain/policy/slot.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Gradient accumulation: one update from `micro_batches` micro-batches, equal to the update from one batch of them
/// all. `accumulate<1>`, the default, costs nothing.
template <int micro_batches_> struct accumulate {
  using slot = slot_of::accumulation;
  static constexpr char const* name = "accumulate";
  static constexpr int micro_batches = micro_batches_;
};

} // namespace constrain
