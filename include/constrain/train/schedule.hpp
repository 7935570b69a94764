#pragma once

#include "constrain/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

/// The learning rate as a pure function of the optimizer step: what it is multiplied by at step 0, 1, 2, ...
namespace constrain::inline CONSTRAIN_VARIANT::schedule {

/// Rises linearly over the first `warmup` steps: (step + 1) / warmup.
constexpr double warm_up(optimizer_steps step, optimizer_steps warmup) {
  if (step >= warmup) return 1;
  return static_cast<double>(step.count() + 1) / static_cast<double>(warmup.count());
}

/// How much of the way from the end of warm-up to `steps` is done, in [0, 1].
constexpr double progress(optimizer_steps step, optimizer_steps warmup, optimizer_steps steps) {
  if (steps <= warmup) return 1;
  return std::clamp(static_cast<double>(step.count() - warmup.count()) /
                        static_cast<double>(steps.count() - warmup.count()),
                    0.0, 1.0);
}

/// Rises linearly in `warmup` steps, then stays.
struct constant {
  optimizer_steps warmup = 0; // in which the rate rises
  double operator()(optimizer_steps step) const { return warm_up(step, warmup); }
};

/// Falls linearly to `minimum` of the rate at `steps`.
struct linear {
  optimizer_steps warmup = 0; // in which the rate rises
  optimizer_steps steps = 0;  // at which `minimum` is reached, warm-up included
  double minimum = 0;         // share of the full rate
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    return minimum + (1 - minimum) * (1 - progress(step, warmup, steps));
  }
};

/// Falls along half a cosine to `minimum` of the rate at `steps` (Loshchilov & Hutter 2017, without restarts).
struct cosine {
  optimizer_steps warmup = 0; // in which the rate rises
  optimizer_steps steps = 0;  // at which `minimum` is reached, warm-up included
  double minimum = 0;         // share of the full rate
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    return minimum + (1 - minimum) * 0.5 * (1 + std::cos(3.14159265358979323846 * progress(step, warmup, steps)));
  }
};

/// Any of them: what a run's `.schedule` holds.
using any = std::variant<constant, linear, cosine>;

/// The factor of the learning rate at `step`.
inline double factor(any const& s, optimizer_steps step) {
  return std::visit([&](auto const& chosen) { return chosen(step); }, s);
}

} // namespace constrain::schedule
