#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"
#include "constrain/data/order.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A run's state besides its tensors, saved with them: a resumed run continues as if it had never stopped.
struct training_state {
  std::uint64_t seed = 0;    // of the run
  optimizer_steps steps = 0; // optimizer steps done, skipped ones included
  std::int64_t skipped = 0;  // steps skipped because a gradient was not finite
  std::uint64_t corpus = 0;  // fingerprint of the corpus read last; 0: none so far
  data::position position;   // of the next batch in that corpus
  double best_validation_loss = std::numeric_limits<double>::infinity(); // lowest so far
  std::int64_t evaluations_since_best = 0;                               // evaluations in a row without a lower loss
  double learning_rate_factor = 1;                                       // times the schedule's factor
};

namespace detail {

inline constexpr double largest_learning_rate_factor = 1e9;
inline constexpr std::int64_t largest_count = std::int64_t{1}
                                              << 53; // far beyond any run; sums of two still fit in 64 bits

/// The product of two learning-rate factors, at least the smallest normal double, so that it never becomes 0. Throws
/// `error` for a factor that is not above 0 or a product above `largest_learning_rate_factor`.
[[gnu::noinline]] inline double scaled_factor(double before, double factor) {
  check_number("scale_learning_rate", "the factor", factor, number_range::above_zero);
  auto const product = before * factor;
  if (!is_finite(product) || product > largest_learning_rate_factor)
    refuse_number("scale_learning_rate", "the factor of all calls together", number_text(product),
                  "factors whose product is at most " + number_text(largest_learning_rate_factor));
  return product < std::numeric_limits<double>::min() ? std::numeric_limits<double>::min() : product;
}

/// Throws `error` for a state that no run can have: the file was edited by hand or damaged.
[[gnu::noinline]] inline void check_state(std::string const& directory, training_state const& s) {
  auto const require = [&](bool possible, char const* what, std::string const& value) {
    if (!possible)
      throw error({"the checkpoint '", directory, "' has a state that cannot be: its ", what, " is ", value,
                   "; load another one, or take over its weights alone with load_pretrained"});
  };
  auto const require_count = [&](std::int64_t count, char const* what, std::int64_t most = largest_count) {
    require(count >= 0 && count <= most, what, std::to_string(count));
  };
  auto const steps = s.steps.count();
  require_count(steps, "number of steps");
  require_count(s.skipped, ("number of skipped steps, of " + std::to_string(steps) + ",").c_str(), steps);
  require_count(s.position.epoch, "epoch");
  require_count(s.position.sample, "sample");
  require_count(s.evaluations_since_best, "number of evaluations since the best");
  auto const best = s.best_validation_loss, factor = s.learning_rate_factor;
  require(is_finite(best) || number_text(best) == "inf", "lowest validation loss", number_text(best));
  require(is_within(factor, number_range::above_zero) && factor <= largest_learning_rate_factor,
          "factor of the learning rate", number_text(factor));
}

} // namespace detail

} // namespace constrain
