#pragma once

#include "constrain/program/units.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A part of a run: `part_of_run{1, 10}` is every tenth.
struct part_of_run {
  std::int64_t numerator = 1, denominator = 1; // of the run's steps
};

/// How often something happens: every n steps, at exact parts of a run, or never (0).
class interval {
public:
  constexpr interval(std::int64_t steps = 0) : steps_(steps) {}
  constexpr interval(optimizer_steps steps) : steps_(steps.count()) {}
  constexpr interval(part_of_run part) : part_(part), of_run_(true) {}

  /// Whether it is due after a step of a run of so many. The k-th part of a run ends with the first step that reaches
  /// it: thirds of 10 steps are 4, 7 and 10.
  constexpr bool due(std::int64_t step, std::int64_t of) const {
    if (!of_run_) return steps_ > 0 && step % steps_ == 0;
    if (part_.numerator < 1 || part_.denominator < 1 || of < 1) return false;
    __extension__ using wide = __int128; // no product overflows
    auto const parts = [&](std::int64_t s) { return wide(s) * part_.denominator / (wide(of) * part_.numerator); };
    return parts(step) > parts(step - 1);
  }

private:
  std::int64_t steps_ = 0;
  part_of_run part_{};
  bool of_run_ = false;
};

} // namespace constrain
