#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/op/update/step_hyperparameters.hpp"
#include "constrain/policy/optimizer/in_backward.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"
#include "constrain/train/hyperparameters.hpp"
#include "constrain/train/run_options.hpp"
#include "constrain/train/settings.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

// Range checks of a run's options and hyperparameters when a trainer or an inference object is constructed: a NaN
// learning rate would otherwise destroy the weights without an error.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error` for an option out of range, or for a CUDA stream if the device is the CPU; the error names the option
/// or, for a schedule of the library, the schedule and its field. `on_cuda`: whether the device is device::cuda. (With
/// a parallel policy, `find_ranks` checks `.deadline` first. The class `cuda_device` checks that the device
/// `.cuda_device` exists.)
void check_run(run_options const& o, bool on_cuda);

/// For optimizers that update before the norm of all gradients is known: throws `error` if `.clip_norm` is not 0.
void check_no_clipping(run_options const& o);

/// Throws `error` if the schedule makes a learning rate of `h` infinite or NaN. Checks the first step and, for a
/// schedule of the library, the largest possible step. (`scale_learning_rates` checks the rate of every step.)
template <class hyper> void check_scheduled(hyper const& h, schedule::any const& s) {
  auto const check = [&](hyper scaled, optimizer_steps step) { detail::scale_learning_rates(scaled, s(step), 1); };
  check(h, 0);
  if (!s.fields().empty()) check(h, std::numeric_limits<std::int64_t>::max());
}

/// Throws `error` if the optimizer, or an optimizer that it wraps, has a hyperparameter that is not finite after
/// `prepare` for the first step. Checks the fields that `for_each_hyperparameter` visits. `name`: the optimizer's name
/// in the error.
template <class optimizer, class real>
void check_prepared(op::step_hyperparameters<optimizer, real> const& step, std::string const& name) {
  detail::for_each_hyperparameter(step.decaying, [&]<class number>(std::string const&, number value) {
    if constexpr (std::is_floating_point_v<number>)
      if (!is_finite(static_cast<double>(value)))
        throw error({name, ": `prepare` computes ", number_text(static_cast<double>(value)),
                     " from these hyperparameters for the first step; give hyperparameters closer to the defaults"});
  });
  if constexpr (requires { typename optimizer::base; }) check_prepared<typename optimizer::base, real>(step.base, name);
}

/// The hyperparameters of the first three updates.
template <class optimizer, class real>
using three_steps = std::array<op::step_hyperparameters<optimizer, real> const*, 3>;

/// The value of a weight, initially 1, after three updates with the gradient 1. `steps`: the hyperparameters of these
/// updates. The optimizer must be element-wise.
template <class optimizer, class real> real updated_weight(three_steps<optimizer, real> const& steps) {
  real weight = 1;
  typename optimizer::template state<real> state{};
  for (auto const* const hyperparameters : steps)
    weight = optimizer::template update<real>(weight, real(1), state, hyperparameters->decaying, hyperparameters->step);
  return weight;
}

/// Throws `error` if three updates with the gradient 1 turn a weight of 1 into a weight whose square is infinite or
/// NaN, but the same updates with the default hyperparameters do not: a product of two such weights would overflow.
/// Checks only an element-wise optimizer. `steps`: the user's hyperparameters. `defaults`: the default hyperparameters.
/// `name`: the optimizer's name in the error.
template <class optimizer, class real>
void check_updates(three_steps<optimizer, real> const& steps, three_steps<optimizer, real> const& defaults,
                   std::string const& name) {
  if constexpr (has_state<optimizer> && has_update<optimizer>) {
    auto const is_large = [](real weight) { return !is_finite(static_cast<double>(weight * weight)); };
    real const weight = updated_weight<optimizer, real>(steps);
    if (is_large(weight) && !is_large(updated_weight<optimizer, real>(defaults)))
      throw error({name, ": three updates with these hyperparameters turn a weight of 1, whose gradient is 1, into ",
                   number_text(static_cast<double>(weight)), "; give hyperparameters closer to the defaults"});
  }
}

/// Calls `check_updates` for the hyperparameters `h` of the optimizer and of the optimizers that it wraps; for each
/// role, if the hyperparameters depend on the role.
template <class optimizer, class real>
void check_first_updates(typename optimizer::hyper const& h, std::string const& name) {
  using step = op::step_hyperparameters<optimizer, real>;
  typename optimizer::hyper const defaults{};
  step const user_steps[] = {step(h, {1}), step(h, {2}), step(h, {3})};
  step const default_steps[] = {step(defaults, {1}), step(defaults, {2}), step(defaults, {3})};
  check_updates<optimizer, real>({&user_steps[0], &user_steps[1], &user_steps[2]},
                                 {&default_steps[0], &default_steps[1], &default_steps[2]}, name);
  if constexpr (requires { typename optimizer::base; }) {
    using base = typename optimizer::base;
    auto const check_base = [&](typename base::hyper const& base_hyper) {
      check_first_updates<base, real>(base_hyper, name);
    };
    // A wrapper with the hyperparameters of its base may inherit `for_each_role` from it.
    constexpr bool has_roles = !std::is_same_v<typename optimizer::hyper, typename base::hyper> && requires {
      optimizer::for_each_role(h, check_base);
    };
    if constexpr (has_roles) optimizer::for_each_role(h, check_base);
    else check_base(op::base_hyperparameters<optimizer, real>::hyper_of_base(h));
  }
}

/// If the optimizer has a static function `check(hyper)`, calls this function, which may throw `error`. Throws `error`
/// if a hyperparameter that `for_each_hyperparameter` visits is not finite, and throws the errors of `check_prepared`
/// and `check_first_updates`. `real`: the type in which weights are updated. `name`: the optimizer's name in errors.
template <class optimizer, class real = float>
void check_hyper(typename optimizer::hyper const& h, std::string const& name) {
  if constexpr (requires { optimizer::check(h); }) optimizer::check(h);
  detail::for_each_hyperparameter(h, [&]<class number>(std::string const& field, number value) {
    if constexpr (std::is_floating_point_v<number>)
      check_number(name.c_str(), field.c_str(), static_cast<double>(value), number_range::finite);
  });
  check_prepared<optimizer, real>({h, {}}, name);
  check_first_updates<optimizer, arithmetic<real>>(h, name);
}

/// The checks of `h` and `run` that need no memory of the device. Throws `error` as the constructor of a trainer with
/// these entries does.
template <class entries>
void check_values(typename entries::policies::optimizer::hyper const& h, run_options const& run) {
  using optimizer = typename entries::policies::optimizer;
  check_hyper<optimizer, storage<entries::master>>(h, entries::policies::optimizer_name());
  check_run(run, entries::policies::device::value.is_cuda);
  check_scheduled(h, run.schedule);
  if constexpr (updates_in_backward<optimizer>) check_no_clipping(run);
  check_settings(entries::parameters.view(), run);
}

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/checks.ipp"
#endif
