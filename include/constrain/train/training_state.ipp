#pragma once

#include "constrain/train/training_state.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/number_check.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

inline constexpr double largest_learning_rate_factor = 1e9;
inline constexpr std::int64_t largest_count = std::int64_t{1} << 53; // the sum of two counts still fits in 64 bits

[[gnu::cold]] CONSTRAIN_INLINE double scaled_factor(double previous, double factor) {
  check_number("scale_learning_rate", "the factor", factor, number_range::above_zero);
  auto const product = previous * factor;
  if (!is_finite(product) || product > largest_learning_rate_factor)
    refuse_number("scale_learning_rate", "the factor of all calls together", number_text(product),
                  concat({"factors whose product is at most ", number_text(largest_learning_rate_factor)}));
  return product < std::numeric_limits<double>::min() ? std::numeric_limits<double>::min() : product;
}

[[gnu::cold]] CONSTRAIN_INLINE void begin_validation(training_state& s, std::uint64_t validation) {
  if (has_other_validation(s, validation)) {
    s.best_validation_loss = training_state().best_validation_loss;
    s.evaluations_since_best = s.missed_evaluation = 0;
  }
  s.validation = validation;
}

[[noreturn, gnu::cold]] CONSTRAIN_INLINE void refuse_state(std::string const& directory, std::string const& field,
                                                           std::string const& value) {
  throw error({"the saved run '", directory, "' has an invalid state: its ", field, " is ", value,
               "; load another saved run, or load only the weights of this one with load_pretrained"});
}

[[gnu::cold]] CONSTRAIN_INLINE void check_state(std::string const& directory, training_state const& s) {
  auto const require = [&](bool possible, char const* field, std::string const& value) {
    if (!possible) refuse_state(directory, field, value);
  };
  auto const require_count = [&](std::int64_t count, char const* field, std::int64_t maximum = largest_count) {
    require(count >= 0 && count <= maximum, field, concat({count}));
  };
  auto const steps = s.steps.count();
  require_count(steps, "number of steps");
  require_count(s.skipped, concat({"number of skipped steps (of ", steps, ")"}).c_str(), steps);
  require_count(s.position.epoch, "epoch");
  require_count(s.position.sample, "sample");
  require_count(s.evaluations_since_best, "number of evaluations since the lowest loss");
  require_count(s.missed_evaluation, "step of a missed evaluation", steps);
  auto const best = s.best_validation_loss, factor = s.learning_rate_factor;
  // Infinity is compared as text, because compilers with -ffast-math assume that no number is infinite.
  require(is_finite(best) || number_text(best) == "inf", "lowest validation loss", number_text(best));
  require(is_within(factor, number_range::above_zero) && factor <= largest_learning_rate_factor, "learning-rate factor",
          number_text(factor));
}

} // namespace constrain::detail
