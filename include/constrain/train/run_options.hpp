#pragma once

#include "constrain/train/schedule.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A run's options besides the optimizer's hyperparameters.
struct run_options {
  std::uint64_t seed = 0;      // of the initial weights, the order of samples and dropout
  double clip_norm = 0;        // maximum L2 norm of all gradients together; 0: no clipping
  schedule::any schedule{};    // learning-rate schedule; constant by default
  double dropout = 0;          // probability with which ct::dropout zeroes an element, in [0, 1)
  bool checked = false;        // checks the reads and the result of every kernel call: slow, for debugging
  bool measure_memory = false; // fills the arena with a pattern, so that `used_bytes()` can measure its use
  double deadline = 1800;      // seconds that a rank waits for the others before it ends with an error
};

} // namespace constrain
