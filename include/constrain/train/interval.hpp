#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A part of a run: `part_of_run{1, 10}` is every tenth.
struct part_of_run {
  std::int64_t numerator = 1, denominator = 1; // of the run's steps
};

/// How often something happens: every n steps, at exact parts of a run, or never (0).
class interval {
public:
  /// Every so many steps, or at every such part of the run.
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

  /// Throws `error` for steps below 0 and parts that are none, in which nothing would ever be due.
  void check(char const* owner, char const* field) const {
    if (!of_run_) return check_count(owner, field, steps_, 0);
    if (part_.numerator < 1 || part_.denominator < 1)
      detail::refuse_number(owner, field,
                            "the part " + std::to_string(part_.numerator) + "/" + std::to_string(part_.denominator) +
                                " of a run",
                            "a part of numbers from 1 on, as part_of_run{1, 10}");
  }

  /// Calls f(name, number) for what it consists of.
  template <class function> constexpr void describe(function const& f) const {
    f("the number of steps", steps_), f("the numerator", part_.numerator), f("the denominator", part_.denominator);
  }

private:
  std::int64_t steps_ = 0;
  part_of_run part_{};
  bool of_run_ = false;
};

} // namespace constrain
