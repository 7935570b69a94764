#pragma once

#include "constrain/fit/record/run_diagnosis.hpp"

#include "constrain/base/formatted.hpp"
#include "constrain/device/math.hpp"

#include <algorithm>
#include <cstdlib>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE losses::losses(std::span<step_record const> steps)
    : steps_(steps), tenth_size_(steps.size() < 10 ? (steps.size() + 1) / 2 : steps.size() / 10) {
  for (auto const& r : steps) {
    if (!r.validation_loss) continue;
    if (!math::finite(*r.validation_loss)) {
      set_not_finite(r, "validation");
      return;
    }
    evaluations_.push_back(&r);
    if (best_ == nullptr || *r.validation_loss < *best_->validation_loss) best_ = &r;
  }
  auto finite = steps.size();
  while (finite > 0 && !math::finite(steps[finite - 1].loss)) --finite;
  if (steps.size() - finite >= tenth_size_ && !steps.empty()) set_not_finite(steps[finite], "training");
}

[[gnu::cold]] CONSTRAIN_INLINE double losses::first() const {
  std::size_t finite = 0;
  while (finite < steps_.size() && !math::finite(steps_[finite].loss)) ++finite;
  return mean(0, std::min(std::max(tenth_size_, finite + 1), steps_.size()));
}

[[gnu::cold]] CONSTRAIN_INLINE double losses::until(step_record const& r) const {
  auto const end = static_cast<std::size_t>(&r - steps_.data()) + 1;
  double const m = mean(end > tenth_size_ ? end - tenth_size_ : 0, end);
  return math::finite(m) ? m : first();
}

[[gnu::cold]] CONSTRAIN_INLINE double losses::mean(std::size_t begin, std::size_t end) const {
  double sum = 0;
  int count = 0;
  for (auto i = begin; i < end; ++i)
    if (math::finite(steps_[i].loss)) sum += steps_[i].loss, ++count;
  return sum / count;
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE run_diagnosis diagnose_run(std::span<step_record const> steps) {
  constexpr double solved_loss = 0.01; // nats per label: nearly every label is predicted with near certainty
  detail::losses const run_losses(steps);
  auto const& evaluations = run_losses.evaluations();
  auto const* const best = run_losses.best();
  using detail::formatted;
  if (auto const* const r = run_losses.not_finite(); r != nullptr)
    return {run_condition::not_finite, r->step,
            formatted("The %s loss became non-finite at step %lld: lower the learning rate or, without in_backward, "
                      "clip the gradient.",
                      run_losses.kind(), static_cast<long long>(r->step))};
  if (evaluations.size() < 4)
    return {
        run_condition::too_early, best == nullptr ? 0 : best->step,
        formatted("Too early to say: a diagnosis needs at least four evaluations, but this run had %zu. Evaluate more "
                  "often, or train longer.",
                  evaluations.size())};
  double const first = run_losses.first(), last = run_losses.until(steps.back()), at_best = run_losses.until(*best);
  double const validation = *evaluations.back()->validation_loss, lowest = *best->validation_loss;
  double const noise = std::max(first - std::min(last, at_best), 0.0) / 1000;
  auto const exceeds = [&](double higher, double lower, double fraction) {
    return higher - lower > noise && higher - lower > fraction * std::abs(higher);
  };
  constexpr double two_percent = 0.02 / 1.02; // of the lower loss, as a fraction of the higher one
  auto const best_step = static_cast<long long>(best->step);
  if (exceeds(validation, lowest, two_percent) && last < at_best)
    return {
        run_condition::overfitting, best->step,
        formatted("Overfitting since step %lld: the validation loss rose from %.4g to %.4g while the training loss "
                  "fell. Use the weights of that step (`.best` saves them), more data, more weight decay or, if the "
                  "model has dropout, more dropout.",
                  best_step, lowest, validation)};
  if (exceeds(validation, lowest, two_percent))
    return {run_condition::getting_worse, best->step,
            formatted(
                "Getting worse since step %lld: the validation loss rose from %.4g to %.4g, and the training loss did "
                "not fall. Lower the learning rate or, without in_backward, clip the gradient.",
                best_step, lowest, validation)};
  auto const& quarter_ago = *evaluations[evaluations.size() - 1 - (evaluations.size() + 3) / 4];
  if (best->step > quarter_ago.step && exceeds(*quarter_ago.validation_loss, validation, 0.01))
    return {
        run_condition::still_improving, best->step,
        formatted("Still improving: in the last quarter of the evaluations the validation loss fell from %.4g to %.4g. "
                  "Train longer.",
                  *quarter_ago.validation_loss, validation)};
  if (last > 0.9 * first && last > solved_loss)
    return {run_condition::underfit, best->step,
            formatted(
                "Underfit: the training loss did not fall by a tenth; it went from %.4g to %.4g. Use another learning "
                "rate, or a larger model.",
                first, last)};
  return {run_condition::well_fit, best->step,
          formatted("Well fit: the validation loss ended at %.4g; its lowest was %.4g at step %lld.", validation,
                    lowest, best_step)};
}

} // namespace constrain
