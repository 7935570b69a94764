#pragma once

#include "constrain/data/order.hpp"
#include "constrain/program/units.hpp"

#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What a run is besides its tensors: saved with them, so that a resumed run is the same run.
struct training_state {
  std::uint64_t seed = 0;     // of the run
  optimizer_steps steps = 0;  // done, skipped ones included
  std::int64_t skipped = 0;   // steps whose gradient was not finite
  std::uint64_t corpus = 0;   // fingerprint of the corpus read last; 0 where the windows were the user's own
  data::position position;    // in it: the next window's
  double best_validation_loss = std::numeric_limits<double>::infinity(); // so far
  std::int64_t evaluations_since_best = 0; // without a lower loss
  double learning_rate_factor = 1; // beside the schedule's
};

} // namespace constrain
