#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/train/hyperparameters.hpp"
#include "constrain/train/run_options.hpp"

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

// Range checks of a run's options and hyperparameters, made at construction: a NaN learning rate would otherwise
// destroy the weights without an error.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error` for a negative warm-up, `.steps` below 1 or a negative `.minimum`.
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

/// Throws `error`, naming the field, for an option out of range. (`find_ranks` checks `.deadline`.)
[[gnu::noinline]] inline void check_run(run_options const& o) {
  check_number("run_options", ".clip_norm", o.clip_norm, number_range::from_zero);
  check_number("run_options", ".dropout", o.dropout, number_range::below_one);
  check_schedule(o.schedule);
}

/// Throws `error` if a hyperparameter is not finite, or if the optimizer's own static `check(hyper)` throws. Only
/// fields that `for_each_hyperparameter` visits are checked for finiteness.
template <class optimizer> void check_hyper(typename optimizer::hyper const& h, std::string const& name) {
  if constexpr (requires { optimizer::check(h); }) optimizer::check(h);
  for_each_hyperparameter(h, [&]<class number>(std::string const& field, number value) {
    if constexpr (std::is_floating_point_v<number>)
      check_number(name.c_str(), field.c_str(), static_cast<double>(value), number_range::finite);
  });
}

} // namespace constrain::detail
