#pragma once

#include "constrain/base/libm.hpp"
#include "constrain/base/units.hpp"

#include <algorithm>
#include <variant>

/// Learning-rate schedules: pure functions from the number of optimizer steps already done (0 for the first; skipped
/// steps count) to the number that multiplies the learning rate. The trainer's constructor throws `error` for a field
/// out of range.
namespace constrain::inline CONSTRAIN_VARIANT::schedule {

/// Linear warm-up: (step + 1) / warmup for the first `warmup` steps, then 1.
constexpr double warm_up(optimizer_steps step, optimizer_steps warmup) {
  if (step >= warmup) return 1;
  return static_cast<double>(step.count() + 1) / static_cast<double>(warmup.count());
}

/// Share of the way from the end of warm-up to step `steps`, in [0, 1]; 1 if `steps` is not after the warm-up.
constexpr double progress(optimizer_steps step, optimizer_steps warmup, optimizer_steps steps) {
  if (steps <= warmup) return 1;
  return std::clamp(static_cast<double>(step.count() - warmup.count()) /
                        static_cast<double>(steps.count() - warmup.count()),
                    0.0, 1.0);
}

/// Linear warm-up, then the full learning rate.
struct constant {
  optimizer_steps warmup = 0; // length of the warm-up, at least 0; 0: none
  double operator()(optimizer_steps step) const { return warm_up(step, warmup); }
};

/// Linear warm-up, then linear decay to `minimum` at step `steps`, and `minimum` from then on.
struct linear {
  optimizer_steps warmup = 0; // length of the warm-up, at least 0; 0: none
  optimizer_steps steps = 0;  // number of steps until `minimum` is reached, including the warm-up; at least 1, so it
                              // must be set
  double minimum = 0;         // final factor of the learning rate, at least 0
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    return minimum + (1 - minimum) * (1 - progress(step, warmup, steps));
  }
};

/// Linear warm-up, then half a cosine down to `minimum` at step `steps`, and `minimum` from then on (Loshchilov &
/// Hutter 2017, "SGDR", without restarts).
struct cosine {
  optimizer_steps warmup = 0; // length of the warm-up, at least 0; 0: none
  optimizer_steps steps = 0;  // number of steps until `minimum` is reached, including the warm-up; at least 1, so it
                              // must be set
  double minimum = 0;         // final factor of the learning rate, at least 0
  double operator()(optimizer_steps step) const {
    if (step < warmup) return warm_up(step, warmup);
    return minimum +
           (1 - minimum) * 0.5 * (1 + detail::libm::cos(3.14159265358979323846 * progress(step, warmup, steps)));
  }
};

/// The type of `run_options::schedule`.
using any = std::variant<constant, linear, cosine>;

namespace detail {

/// Calls f(chosen) with the chosen schedule. (Cheaper to compile than std::visit.)
template <class function> auto visit(any const& s, function const& f) {
  if (auto const* const chosen = std::get_if<constant>(&s)) return f(*chosen);
  if (auto const* const chosen = std::get_if<linear>(&s)) return f(*chosen);
  return f(*std::get_if<cosine>(&s));
}

} // namespace detail

/// The schedule's factor of the learning rate at `step`.
inline double factor(any const& s, optimizer_steps step) {
  return detail::visit(s, [&](auto const& chosen) { return chosen(step); });
}

} // namespace constrain::schedule
