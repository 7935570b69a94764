#pragma once

#include "constrain/train/schedule.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The numbers of a run.
struct run_options {
  std::uint64_t seed = 0;      // of the first weights, the order of samples and dropout
  double clip_norm = 0;        // largest norm of all gradients together; 0: no clipping
  schedule::any schedule{};    // of the learning rate; constant by default
  double dropout = 0;          // probability with which ct::dropout zeroes an element
  bool checked = false;        // poisons and tags memory, checks every read and result: slow, for finding mistakes
  bool measure_memory = false; // fills the arena with a pattern first, so that `used_bytes()` finds what was touched
  double deadline = 1800;      // seconds that a process waits for the others of its run; then it ends, and says so
};

} // namespace constrain
