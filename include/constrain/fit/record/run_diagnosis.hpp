#pragma once

#include "constrain/base/formatted.hpp"
#include "constrain/device/math.hpp"
#include "constrain/fit/record/records.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The verdict of `diagnose_run`.
enum class run_condition : std::uint8_t {
  too_early,
  not_finite,
  overfitting,
  still_improving,
  underfit,
  well_fit,
  getting_worse
};

/// A run's diagnosis, with a sentence that says what to do.
struct run_diagnosis {
  run_condition condition = run_condition::too_early; // the verdict
  std::int64_t step = 0; // of the lowest validation loss; for `not_finite`, the first step with such a loss
  std::string text{};    // the verdict in a sentence, with the losses and what to do
};

namespace detail {

/// A run's losses: training losses as means over a tenth of all steps, since single ones are noisy (non-finite ones are
/// left out), and validation losses.
class losses {
public:
  [[gnu::noinline, gnu::cold]] explicit losses(std::span<step_record const> steps)
      : steps_(steps), tenth_(steps.size() < 10 ? (steps.size() + 1) / 2 : steps.size() / 10) {
    for (auto const& r : steps) {
      if (!r.validation_loss) continue;
      if (!math::finite(*r.validation_loss)) {
        refuse(r, "validation");
        return;
      }
      evaluations_.push_back(&r);
      if (best_ == nullptr || *r.validation_loss < *best_->validation_loss) best_ = &r;
    }
    auto finite = steps.size();
    while (finite > 0 && !math::finite(steps[finite - 1].loss)) --finite;
    if (steps.size() - finite >= tenth_ && !steps.empty()) refuse(steps[finite], "training");
  }

  /// The step of the first non-finite validation loss, or the first of a tail of at least a tenth of all steps whose
  /// training losses are not finite; null: none.
  step_record const* not_finite() const { return not_finite_; }
  /// Which loss is not finite: "training" or "validation".
  char const* which() const { return which_; }

  /// Mean training loss at the start of the run.
  double first() const {
    auto end = tenth_;
    while (end < steps_.size() && !math::finite(mean(0, end))) ++end;
    return mean(0, end);
  }
  /// Mean training loss over the tenth of the run that ends with step r.
  double until(step_record const& r) const {
    auto const end = static_cast<std::size_t>(&r - steps_.data()) + 1;
    double const m = mean(end > tenth_ ? end - tenth_ : 0, end);
    return math::finite(m) ? m : first();
  }

  std::vector<step_record const*> const& evaluations() const { return evaluations_; }
  step_record const* best() const { return best_; }

private:
  void refuse(step_record const& r, char const* which) { not_finite_ = &r, which_ = which; }

  double mean(std::size_t begin, std::size_t end) const {
    double sum = 0;
    int count = 0;
    for (auto i = begin; i < end; ++i)
      if (math::finite(steps_[i].loss)) sum += steps_[i].loss, ++count;
    return sum / count;
  }

  std::span<step_record const> steps_;
  std::size_t tenth_;
  std::vector<step_record const*> evaluations_{};
  step_record const *best_ = nullptr, *not_finite_ = nullptr;
  char const* which_ = "";
};

} // namespace detail

/// Diagnoses a run from the losses of its steps. A change of a loss counts only if it is more than the percentage below
/// and more than 1/1000 of the total fall of the training loss; smaller changes are noise.
/// - not finite: a validation loss, or the training losses of the last tenth of the steps, are NaN or infinite;
/// - too early: fewer than four evaluations;
/// - overfitting: the validation loss ended more than 2 % above its lowest, while the training loss fell further;
/// - getting worse: the same, but the training loss did not fall either;
/// - still improving: in the last quarter of the evaluations the validation loss reached its lowest and fell by more
/// than 1 %;
/// - underfit: the validation loss is flat; the training loss fell by less than a tenth and is still above 0.01;
/// - well fit: otherwise.
[[gnu::noinline, gnu::cold]] inline run_diagnosis diagnose_run(std::span<step_record const> steps) {
  constexpr double solved = 0.01; // nats per label: nearly every label is predicted with near certainty
  detail::losses const all(steps);
  auto const& evaluations = all.evaluations();
  auto const* const best = all.best();
  using detail::formatted;
  if (auto const* const r = all.not_finite(); r != nullptr)
    return {run_condition::not_finite, r->step,
            formatted("The %s loss is not finite since step %lld: lower the learning rate, or clip the gradient.",
                      all.which(), static_cast<long long>(r->step))};
  if (evaluations.size() < 4)
    return {run_condition::too_early, best == nullptr ? 0 : best->step,
            formatted("Too early to say: it takes four evaluations, this run had %zu.", evaluations.size())};
  double const first = all.first(), last = all.until(steps.back()), at_best = all.until(*best);
  double const validation = *evaluations.back()->validation_loss, lowest = *best->validation_loss;
  double const noise = std::max(first - std::min(last, at_best), 0.0) / 1000;
  auto const differs = [&](double from, double to, double part) {
    return from - to > noise && from - to > part * std::abs(from);
  };
  auto const since = static_cast<long long>(best->step);
  if (differs(validation, lowest, 0.02 / 1.02) && last < at_best)
    return {
        run_condition::overfitting, best->step,
        formatted(
            "Overfitting since step %lld: the validation loss rose from %.4g to %.4g while the training loss fell. Use the weights "
            "of that step (`.best` keeps them), more data, or more weight decay or dropout where there is some.",
            since, lowest, validation)};
  if (differs(validation, lowest, 0.02 / 1.02))
    return {
        run_condition::getting_worse, best->step,
        formatted(
            "Getting worse since step %lld: the validation loss rose from %.4g to %.4g, and the training loss did not fall. Lower "
            "the learning rate, or clip the gradient.",
            since, lowest, validation)};
  auto const& quarter_ago = *evaluations[evaluations.size() - 1 - (evaluations.size() + 3) / 4];
  if (best->step > quarter_ago.step && differs(*quarter_ago.validation_loss, validation, 0.01))
    return {
        run_condition::still_improving, best->step,
        formatted(
            "Still improving: in the last quarter of the evaluations the validation loss fell from %.4g to %.4g. Train longer.",
            *quarter_ago.validation_loss, validation)};
  if (last > 0.9 * first && last > solved)
    return {
        run_condition::underfit, best->step,
        formatted(
            "Underfit: the losses are flat, and the training loss only went from %.4g to %.4g. Use another learning rate, or a "
            "larger model.",
            first, last)};
  return {run_condition::well_fit, best->step,
          formatted("Well fit: the validation loss is flat at %.4g, its lowest was %.4g at step %lld.", validation,
                    lowest, since)};
}

} // namespace constrain
