#pragma once

#include "constrain/base/libm.hpp"
#include "constrain/train/schedule.hpp"

#include <algorithm>
#include <vector>

/// The library's learning-rate schedules. If `warmup` is above 0, every schedule begins with a linear warm-up, whose
/// first step has the factor 1 / warmup. After the warm-up and before step `steps`, the factors equal the factors of
/// the corresponding schedules of Hugging Face Transformers, whose warm-up starts from 0 instead (from `minimum` in
/// `warmup_stable_decay`).
namespace constrain::inline CONSTRAIN_VARIANT::schedule {

/// Linear warm-up: (step + 1) / warmup for the first `warmup` steps, then 1.
constexpr double warm_up(optimizer_steps step, optimizer_steps warmup) {
  if (step >= warmup) return 1;
  return static_cast<double>(step.count() + 1) / static_cast<double>(warmup.count());
}

/// The position of `step` between `begin` (0) and `end` (1), clamped to [0, 1]; 1 if `end` is not after `begin`.
constexpr double progress(optimizer_steps step, optimizer_steps begin, optimizer_steps end) {
  if (end <= begin) return 1;
  return std::clamp(
      static_cast<double>(step.count() - begin.count()) / static_cast<double>(end.count() - begin.count()), 0.0, 1.0);
}

namespace detail {

/// The error sentence if the warm-up is longer than the schedule; null if it is not. A warm-up of all steps is allowed,
/// as in Transformers. In this case, the factor is `minimum` right after the warm-up.
constexpr char const* warm_up_conflict(optimizer_steps warmup, optimizer_steps steps) {
  return warmup > steps ? ".warmup is longer than .steps, which include the warm-up; make .steps larger" : nullptr;
}

} // namespace detail

/// Linear warm-up, then the full learning rate.
struct constant {
  static constexpr char const* name = "constant";
  optimizer_steps warmup = 0; // length of the warm-up, at least 0; 0: none
  /// The factor at `step`.
  double operator()(optimizer_steps step) const { return warm_up(step, warmup); }
  /// The fields, which `any` checks.
  std::vector<field> fields() const { return {steps_field(".warmup", warmup, 0)}; }
};

/// Linear warm-up, then linear decay to `minimum` at step `steps`, and `minimum` from then on.
struct linear {
  static constexpr char const* name = "linear";
  optimizer_steps warmup = 0; // length of the warm-up, at least 0 and at most `steps`; 0: none
  optimizer_steps steps = 0;  // number of steps until `minimum` is reached, including the warm-up; at least 1, so it
                              // must be set
  double minimum = 0;         // final learning-rate factor, from 0 to 1
  /// The factor at `step`.
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    return minimum + (1 - minimum) * (1 - progress(step, warmup, steps));
  }
  /// The fields, which `any` checks.
  std::vector<field> fields() const {
    return {steps_field(".warmup", warmup, 0),
            steps_field(".steps", steps, 1),
            {".minimum", minimum, number_range::from_zero_to_one}};
  }
  /// The error sentence if the fields contradict each other; null if they do not.
  char const* conflict() const { return detail::warm_up_conflict(warmup, steps); }
};

/// Linear warm-up, then half a cosine down to `minimum` at step `steps`, and `minimum` from then on (Loshchilov &
/// Hutter 2017, "SGDR", without restarts).
struct cosine {
  static constexpr char const* name = "cosine";
  optimizer_steps warmup = 0; // length of the warm-up, at least 0 and at most `steps`; 0: none
  optimizer_steps steps = 0;  // number of steps until `minimum` is reached, including the warm-up; at least 1, so it
                              // must be set
  double minimum = 0;         // final learning-rate factor, from 0 to 1
  /// The factor at `step`.
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    return minimum + (1 - minimum) * 0.5 *
                         (1 + constrain::detail::libm::cos(3.14159265358979323846 * progress(step, warmup, steps)));
  }
  /// The fields, which `any` checks.
  std::vector<field> fields() const {
    return {steps_field(".warmup", warmup, 0),
            steps_field(".steps", steps, 1),
            {".minimum", minimum, number_range::from_zero_to_one}};
  }
  /// The error sentence if the fields contradict each other; null if they do not.
  char const* conflict() const { return detail::warm_up_conflict(warmup, steps); }
};

/// Linear warm-up, then a power of the linear decay, minimum + (1 - minimum) (1 - progress)^power, down to `minimum` at
/// step `steps`, and `minimum` from then on.
struct polynomial {
  static constexpr char const* name = "polynomial";
  optimizer_steps warmup = 0; // length of the warm-up, at least 0 and at most `steps`; 0: none
  optimizer_steps steps = 0;  // number of steps until `minimum` is reached, including the warm-up; at least 1, so it
                              // must be set
  double power = 1;           // exponent, above 0; 1: linear decay
  double minimum = 0;         // final learning-rate factor, from 0 to 1
  /// The factor at `step`.
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    return minimum + (1 - minimum) * constrain::detail::libm::pow(1 - progress(step, warmup, steps), power);
  }
  /// The fields, which `any` checks.
  std::vector<field> fields() const {
    return {steps_field(".warmup", warmup, 0),
            steps_field(".steps", steps, 1),
            {".power", power, number_range::above_zero},
            {".minimum", minimum, number_range::from_zero_to_one}};
  }
  /// The error sentence if the fields contradict each other; null if they do not.
  char const* conflict() const { return detail::warm_up_conflict(warmup, steps); }
};

/// Linear warm-up, then decay with the inverse square root of the step (Vaswani et al. 2017, "Attention Is All You
/// Need", equation 3): 1 / sqrt(1 + (step - warmup) / timescale). The decay does not depend on the length of the run.
struct inverse_square_root {
  static constexpr char const* name = "inverse_square_root";
  optimizer_steps warmup = 0;    // length of the warm-up, at least 0; 0: none
  optimizer_steps timescale = 0; // steps after the warm-up until the factor is 1 / sqrt(2), at least 0; 0: `warmup`, or
                                 // 10,000 without a warm-up
  /// The factor at `step`.
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    auto const scale = timescale > 0 ? timescale : warmup > 0 ? warmup : optimizer_steps(10000);
    return 1 / constrain::detail::libm::sqrt(1 + static_cast<double>((step - warmup).count()) /
                                                     static_cast<double>(scale.count()));
  }
  /// The fields, which `any` checks.
  std::vector<field> fields() const {
    return {steps_field(".warmup", warmup, 0), steps_field(".timescale", timescale, 0)};
  }
};

/// The decay curve of `warmup_stable_decay`.
enum class decay_form {
  linear,         // 1 - progress
  one_minus_sqrt, // 1 - sqrt(progress): falls faster at first
};

/// Linear warm-up, then the full learning rate, then decay to `minimum` over the last `decay` of `steps` steps, and
/// `minimum` from then on (Hu et al. 2024, "MiniCPM", section 4; for 1 - sqrt, Hägele et al. 2024, "Scaling Laws and
/// Compute-Optimal Training Beyond Fixed Training Durations"). To extend a run, start the decay later.
struct warmup_stable_decay {
  static constexpr char const* name = "warmup_stable_decay";
  optimizer_steps warmup = 0; // length of the warm-up, at least 0; 0: none
  optimizer_steps steps = 0;  // number of steps until `minimum` is reached, including the warm-up; at least 1, so it
                              // must be set
  optimizer_steps decay = 0;  // length of the decay; at least 1, so it must be set, and at most `steps` - `warmup`
  double minimum = 0;         // final learning-rate factor, from 0 to 1
  decay_form form = decay_form::linear; // curve of the decay
  /// The factor at `step`.
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    double const fraction = progress(step, steps - decay, steps);
    double const remaining = 1 - (form == decay_form::linear ? fraction : constrain::detail::libm::sqrt(fraction));
    return minimum + (1 - minimum) * remaining;
  }
  /// The fields, which `any` checks.
  std::vector<field> fields() const {
    return {steps_field(".warmup", warmup, 0),
            steps_field(".steps", steps, 1),
            steps_field(".decay", decay, 1),
            {".minimum", minimum, number_range::from_zero_to_one},
            {".form", static_cast<double>(form), number_range::finite}};
  }
  /// The error sentence if the fields contradict each other; null if they do not.
  char const* conflict() const {
    if (form != decay_form::linear && form != decay_form::one_minus_sqrt)
      return ".form is neither decay_form::linear nor decay_form::one_minus_sqrt; give one of them";
    return decay > steps - warmup ? ".warmup and .decay together are longer than .steps; make .steps larger" : nullptr;
  }
};

} // namespace constrain::schedule
