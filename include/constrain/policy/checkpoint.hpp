#pragma once

#include "constrain/policy/slot.hpp"

/// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
namespace constrain::inline CONSTRAIN_VARIANT::checkpoint {

/// Keeps all activations.
struct none {
  using slot = slot_of::checkpointing;
  static constexpr char const* name = "checkpoint::none";
  static constexpr int trips = 0;
};

/// Keeps the input of every `trips_`-th trip of a repeat and computes the rest again in the backward pass. The numbers
/// stay the same, bit for bit.
template <int trips_> struct every {
  using slot = slot_of::checkpointing;
  static constexpr char const* name = "checkpoint::every";
  static constexpr int trips = trips_;
};

} // namespace constrain::checkpoint
