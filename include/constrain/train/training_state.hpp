#pragma once

#include "constrain/base/units.hpp"
#include "constrain/data/order.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A run's state besides its tensors, saved together with the tensors, so that a resumed run continues as if it had
/// never stopped.
struct training_state {
  std::uint64_t seed = 0;    // of the run
  optimizer_steps steps = 0; // optimizer steps done, skipped ones included
  std::int64_t skipped = 0;  // steps skipped because a gradient was not finite
  std::uint64_t corpus = 0;  // fingerprint of the corpus read last; 0: none so far
  data::position position;   // of the next batch in this corpus
  double best_validation_loss = std::numeric_limits<double>::infinity(); // lowest so far
  std::int64_t evaluations_since_best = 0;                               // evaluations in a row without a lower loss
  double learning_rate_factor = 1;                                       // product of all `scale_learning_rate` factors
};

namespace detail {

/// The product of two learning-rate factors. A product below the smallest normal double is replaced by that number, so
/// that it never becomes 0. Throws `error` for a factor that is not above 0 or a product above 1e9.
double scaled_factor(double before, double factor);

/// Throws `error` for a state that no run can have, read from a file that was damaged or edited by hand. `directory`:
/// the saved run, for the error.
void check_state(std::string const& directory, training_state const& s);

} // namespace detail

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/training_state.ipp"
#endif
