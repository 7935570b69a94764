#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"
#include "constrain/device/math.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// Adam (Kingma & Ba 2015) with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), like torch.optim.AdamW
/// but with other defaults:
///
///     m = beta1 m + (1 - beta1) g
///     v = beta2 v + (1 - beta2) g^2
///     w = (1 - lr weight_decay) w - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// The state is two values per weight: 8 bytes in fp32.
struct adamw {
  static constexpr char const* name = "adamw";

  /// m and v of the equations: exponential moving averages of the gradient and of the squared gradient.
  template <class real> struct state { real exp_avg, exp_avg_sq; };
  static constexpr char const* state_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr bool state_signed[] = {true, false};
  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 5e-5f; // at least 0, before the schedule
    float beta1 = 0.9f;          // decay rate of m, in [0, 1)
    float beta2 = 0.999f;        // decay rate of v, in [0, 1)
    float epsilon = 1e-8f;       // added to the root, above 0
    float weight_decay = 0;      // at least 0; decoupled and multiplied by the learning rate (by default,
                                 // biases and norms do not decay)
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite.
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".beta1", h.beta1, number_range::below_one);
    check_number(name, ".beta2", h.beta2, number_range::below_one);
    check_number(name, ".epsilon", h.epsilon, number_range::above_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
  }
  /// Hyperparameters of one step: keep = 1 - lr weight_decay, and the bias corrections (Kingma & Ba 2015, section 3) as
  /// two factors, step_size = lr / (1 - beta1^t) and inverse_root_correction2 = 1 / sqrt(1 - beta2^t).
  template <class real> struct prepared {
    real beta1, beta2, epsilon;                     // the same as in `hyper`
    real keep, step_size, inverse_root_correction2; // may differ from step to step
  };

  /// The hyperparameters of step t, computed in double on the host. t counts from 1.
  template <class real> static prepared<real> prepare(hyper const& h, optimizer_step t) {
    auto const steps = static_cast<double>(t.number);
    double const correction1 = 1 - detail::libm::pow(static_cast<double>(h.beta1), steps);
    double const correction2 = 1 - detail::libm::pow(static_cast<double>(h.beta2), steps);
    double const rate = h.learning_rate;
    return {real(h.beta1),
            real(h.beta2),
            real(h.epsilon),
            static_cast<real>(1 - rate * static_cast<double>(h.weight_decay)),
            static_cast<real>(rate / correction1),
            static_cast<real>(1 / detail::libm::sqrt(correction2))};
  }

  /// Updates the state and returns the new weight.
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, prepared<real> const& h,
                                    optimizer_step) {
    s.exp_avg = h.beta1 * s.exp_avg + (1 - h.beta1) * gradient;
    s.exp_avg_sq = h.beta2 * s.exp_avg_sq + (1 - h.beta2) * gradient * gradient;
    real const root = math::fast_sqrt(s.exp_avg_sq) * h.inverse_root_correction2;
    return weight * h.keep - math::fast_quotient(h.step_size * s.exp_avg, root + h.epsilon);
  }
};

} // namespace constrain::optimizer
