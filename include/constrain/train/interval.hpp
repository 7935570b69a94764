#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A fraction of a run's steps: an `interval` of `part_of_run{1, 10}` is due after every tenth of the run.
struct part_of_run {
  std::int64_t numerator = 1, denominator = 1; // 1 <= numerator <= denominator
};

/// How often an event (such as an evaluation) happens: every n steps, once per given fraction of the run, or never.
/// Converts from an integer, `optimizer_steps` and `part_of_run`. The constructors accept any values; `check` refuses
/// values out of range.
class interval {
public:
  /// `steps`: number of steps between two events, at least 0; 0: never. `part`: fraction of the run between two events.
  constexpr interval(std::int64_t steps = 0) : steps_(steps) {}
  constexpr interval(optimizer_steps steps) : steps_(steps.count()) {}
  constexpr interval(part_of_run part) : fraction_(part), is_fraction_(true) {}

  /// Whether the event is due after step `step` (counted from 1) in a run of `run_steps` steps. With a fraction, the
  /// event is due at the first step that reaches each multiple of the fraction: with thirds of 10 steps, at steps 4, 7
  /// and 10. Never due if the number of steps, or the numerator or denominator of the fraction, is below 1. With a
  /// fraction, also never due if `run_steps` is below 1.
  constexpr bool due(std::int64_t step, std::int64_t run_steps) const {
    if (!is_fraction_) return steps_ > 0 && step % steps_ == 0;
    if (fraction_.numerator < 1 || fraction_.denominator < 1 || run_steps < 1) return false;
    __extension__ using int128 = __int128; // products of steps and fractions can exceed 64 bits
    auto const multiples = [&](std::int64_t s) {
      return int128(s) * fraction_.denominator / (int128(run_steps) * fraction_.numerator);
    };
    return multiples(step) > multiples(step - 1);
  }

  /// Whether the interval is 0 steps, the default: the event is never due.
  constexpr bool is_never() const { return !is_fraction_ && steps_ == 0; }

  /// Throws `error` for a negative number of steps, or a fraction that is above 1 or whose numerator or denominator is
  /// below 1. `owner`, `field`: the struct and its field, for the error.
  void check(char const* owner, char const* field) const {
    if (!is_fraction_) return check_count(owner, field, steps_, 0);
    if (fraction_.numerator < 1 || fraction_.denominator < fraction_.numerator)
      detail::refuse_number(owner, field,
                            concat({"the part ", fraction_.numerator, "/", fraction_.denominator, " of a run"}),
                            "a numerator of at least 1 and a denominator of at least the numerator, for example "
                            "part_of_run{1, 10}");
  }

  /// Calls f(name, value) for each value of the interval, so that ranks can compare their intervals. `name`: what the
  /// value is, a string literal.
  template <class function> constexpr void describe(function const& f) const {
    f("the unit (0: steps, 1: part of the run)", is_fraction_ ? 1 : 0), f("the number of steps", steps_),
        f("the numerator", fraction_.numerator), f("the denominator", fraction_.denominator);
  }

private:
  std::int64_t steps_ = 0;
  part_of_run fraction_{};
  bool is_fraction_ = false;
};

} // namespace constrain
