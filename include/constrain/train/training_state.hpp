#pragma once

#include "constrain/base/units.hpp"
#include "constrain/data/order.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A run's state besides its tensors. The state is saved together with the tensors, so that a resumed run continues as
/// if it had never stopped.
struct training_state {
  std::uint64_t seed = 0;    // of the initial weights, the order of samples, dropout and stochastic rounding
  optimizer_steps steps = 0; // optimizer steps done, including skipped steps
  std::int64_t skipped = 0;  // steps skipped because the gradient norm was not finite
  std::uint64_t corpus = 0;  // hash of the corpus or examples that a step read last; 0: none
  data::position position;   // position in this corpus or these examples after the batch of that step
  double best_validation_loss = std::numeric_limits<double>::infinity(); // lowest so far; infinity: none yet
  std::int64_t evaluations_since_best = 0;                               // evaluations in a row without a lower loss
  std::int64_t missed_evaluation = 0; // step after which a signal prevented an evaluation that was due; 0: none
  std::uint64_t validation = 0;       // hash of the validation data of the previous three values; 0: none or unknown
  double learning_rate_factor = 1;    // product of all `scale_learning_rate` factors
};

namespace detail {

/// Whether the validation losses in `s` are known to be from data whose hash is not `validation`.
inline bool has_other_validation(training_state const& s, std::uint64_t validation) {
  return s.validation != 0 && s.validation != validation;
}

/// `trainer::begin_validation` for the state `s`.
void begin_validation(training_state& s, std::uint64_t validation);

/// `previous` * `factor`, for `scale_learning_rate`; at least the smallest normal double, so that the product never
/// becomes 0. Throws `error` unless the factor is finite and above 0, and the product is at most 1e9.
double scaled_factor(double previous, double factor);

/// Throws the error for an invalid value in the training state or the settings of the saved run `directory`. `field`:
/// what the value is, as a noun for the error. `value`: the value as text.
[[noreturn]] void refuse_state(std::string const& directory, std::string const& field, std::string const& value);

/// Calls `refuse_state` for the first field of `s` with an invalid value, if any.
void check_state(std::string const& directory, training_state const& s);

} // namespace detail

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/training_state.ipp"
#endif
