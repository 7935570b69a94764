#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/train/hyperparameters.hpp"
#include "constrain/train/run_options.hpp"

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

// Every number of a run is looked at when it is given: a mistake in one is better known then than after hours, in which
// a NaN destroys the weights without a word.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

inline void check_schedule(schedule::any const& s) {
  constexpr char const* owners[] = {"schedule::constant", "schedule::linear", "schedule::cosine"};
  auto const* const owner = owners[s.index()];
  std::visit(
      [&](auto const& chosen) {
        check_count(owner, ".warmup", chosen.warmup.count(), 0);
        if constexpr (requires { chosen.minimum; }) {
          check_count(owner, ".steps", chosen.steps.count(), 1);
          check_number(owner, ".minimum", chosen.minimum, number_range::from_zero);
        }
      },
      s);
}

/// Throws `error`, naming the field, unless a run can go by these.
[[gnu::noinline]] inline void check_run(run_options const& o) {
  check_number("run_options", ".clip_norm", o.clip_norm, number_range::from_zero);
  check_number("run_options", ".dropout", o.dropout, number_range::below_one);
  check_schedule(o.schedule);
}

/// Throws `error` unless an optimizer's hyperparameters are finite, as far as they can be told apart, and the optimizer
/// itself has nothing against them.
template <class optimizer> void check_hyper(typename optimizer::hyper const& h, std::string const& name) {
  if constexpr (requires { optimizer::check(h); }) optimizer::check(h);
  for_each_hyperparameter(h, [&]<class number>(std::string const& field, number value) {
    if constexpr (std::is_floating_point_v<number>)
      check_number(name.c_str(), field.c_str(), static_cast<double>(value), number_range::finite);
  });
}

} // namespace constrain::detail
