#pragma once

#include "constrain/fit/record/records.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The verdict of `diagnose_run`; the comment on that function defines the verdicts.
enum class run_condition : std::uint8_t {
  too_early,
  not_finite,
  overfitting,
  still_improving,
  underfit,
  well_fit,
  getting_worse
};

/// A run's diagnosis.
struct run_diagnosis {
  run_condition condition = run_condition::too_early; // the verdict
  std::int64_t step = 0; // step with the lowest validation loss, 0 without an evaluation; for `not_finite`: the step at
                         // which the loss became non-finite
  std::string text{};    // the verdict in words; for most verdicts also the losses and what to do
};

namespace detail {

/// A run's losses: validation losses, and training losses as means over a tenth of all steps (over half, if there are
/// fewer than ten steps), because single losses are noisy. Non-finite training losses are left out.
class losses {
public:
  /// `steps`: all steps of the run, in order; may be empty. They must outlive this object, which points to them.
  [[gnu::cold]] explicit losses(std::span<step_record const> steps);

  /// Returns the first step with a non-finite validation loss. If there is none, but all training losses of the last
  /// tenth of the steps are non-finite, returns the first step after the last finite training loss, or the first step
  /// of the run if no training loss is finite. Otherwise, returns null.
  step_record const* not_finite() const { return not_finite_; }
  /// Which loss is not finite: "training" or "validation"; empty if `not_finite()` is null.
  char const* kind() const { return not_finite_kind_; }

  /// Mean training loss over the first tenth of the run, or over more steps if no loss in that tenth is finite; NaN if
  /// no training loss is finite.
  double first() const;
  /// Mean training loss over the tenth of the run that ends with `r`, or over all steps up to `r` if these are fewer;
  /// `first()` if no loss of these steps is finite. `r` must be one of the constructor's steps.
  double until(step_record const& r) const;

  /// The steps with an evaluation, before the first non-finite validation loss.
  std::vector<step_record const*> const& evaluations() const { return evaluations_; }
  /// The step of `evaluations()` with the lowest validation loss; null: none.
  step_record const* best() const { return best_; }

private:
  void set_not_finite(step_record const& r, char const* kind) { not_finite_ = &r, not_finite_kind_ = kind; }

  /// Mean of the finite training losses of the steps with index in [begin, end); NaN if there is none.
  double mean(std::size_t begin, std::size_t end) const;

  std::span<step_record const> steps_;
  std::size_t tenth_size_;
  std::vector<step_record const*> evaluations_{};
  step_record const *best_ = nullptr, *not_finite_ = nullptr;
  char const* not_finite_kind_ = "";
};

} // namespace detail

/// Diagnoses a run from the losses of its steps: returns the first verdict below that applies. `steps`: all steps of
/// the run, in order (see `records::steps`); may be empty. A change in the validation loss counts only if it exceeds
/// both the percentage below and 1/1000 of the total fall of the training loss; smaller changes are noise. For fewer
/// than ten steps, "the last tenth" below is the last half.
/// - not finite: a validation loss is NaN or infinite, or all training losses of the last tenth of the steps are NaN
///   or infinite;
/// - too early: fewer than four evaluations;
/// - overfitting: the validation loss ended more than 2 % above its lowest value, and the training loss kept falling;
/// - getting worse: the validation loss ended more than 2 % above its lowest value, and the training loss did not
///   keep falling;
/// - still improving: in the last quarter of the evaluations, the validation loss reached its lowest value and fell by
///   more than 1 %;
/// - underfit: the training loss fell by less than a tenth and is still above 0.01;
/// - well fit: otherwise.
[[gnu::cold]] run_diagnosis diagnose_run(std::span<step_record const> steps);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/record/run_diagnosis.ipp"
#endif
