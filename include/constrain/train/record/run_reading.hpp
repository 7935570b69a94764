#pragma once

#include "constrain/device/math.hpp"
#include "constrain/train/record/records.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What the losses of a run say about it.
enum class reading : std::uint8_t { too_early, not_finite, overfitting, still_improving, underfit, well_fit };

struct run_reading {
  constrain::reading reading = constrain::reading::too_early;
  std::int64_t step = 0; // of the lowest validation loss
  std::string text{};
};

/// Reads a run: needs four evaluations to say more than that it is too early.
/// - overfitting: the validation loss ended more than 2 % above its lowest while the training loss went on falling;
/// - still improving: in the last quarter of the evaluations it fell by more than 1 %;
/// - underfit: it is flat, but the training loss has fallen by less than a tenth from the start;
/// - well fit: otherwise.
inline run_reading read_run(std::span<step_record const> steps) {
  std::vector<step_record const*> evaluations;
  step_record const* best = nullptr;
  for (auto const& r : steps) {
    if (!r.validation_loss) continue;
    if (!math::finite(*r.validation_loss))
      return {reading::not_finite, r.step,
              "The validation loss is not finite since step " + std::to_string(r.step) + ": lower the learning rate, or clip the gradient."};
    evaluations.push_back(&r);
    if (best == nullptr || *r.validation_loss < *best->validation_loss) best = &r;
  }
  if (evaluations.size() < 4)
    return {reading::too_early, best == nullptr ? 0 : best->step,
            "Too early to say: it takes four evaluations, this run had " + std::to_string(evaluations.size()) + "."};
  // Single losses are noisy: the mean of a tenth of all steps, before or after a place.
  auto const tenth = std::max<std::size_t>(steps.size() / 10, 1);
  auto const training_loss = [&](std::size_t end) {
    double sum = 0;
    auto const begin = end > tenth ? end - tenth : 0;
    for (auto i = begin; i < end; ++i) sum += steps[i].loss;
    return sum / static_cast<double>(end - begin);
  };
  double const first = training_loss(tenth), last = training_loss(steps.size());
  double const at_best = training_loss(static_cast<std::size_t>(best - steps.data()) + 1);
  double const validation = *evaluations.back()->validation_loss, lowest = *best->validation_loss;
  auto const since = std::to_string(best->step);
  if (validation > 1.02 * lowest && last < at_best)
    return {reading::overfitting, best->step, "Overfitting since step " + since +
            ": the validation loss rises while the training loss falls. Stop there, use more data, or raise weight decay or dropout."};
  double const quarter_ago = *evaluations[evaluations.size() - 1 - (evaluations.size() + 3) / 4]->validation_loss;
  if (validation < 0.99 * quarter_ago)
    return {reading::still_improving, best->step, "Still improving: the validation loss fell until the end. Train longer."};
  if (last > 0.9 * first)
    return {reading::underfit, best->step,
            "Underfit: the losses are flat, and the training loss has hardly fallen. Use a larger model or another learning rate."};
  return {reading::well_fit, best->step, "Well fit: the validation loss is flat, and not above its lowest, of step " + since + "."};
}

} // namespace constrain
