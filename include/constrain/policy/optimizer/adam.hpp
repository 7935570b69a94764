#pragma once

#include "constrain/policy/optimizer/adamw.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// Adam (Kingma & Ba 2015, algorithm 1), like torch.optim.Adam. Unlike in AdamW, weight decay is an L2 term, which is
/// added to the gradient and enters the moving averages:
///
///     g = g + weight_decay w
///     m = beta1 m + (1 - beta1) g
///     v = beta2 v + (1 - beta2) g^2
///     w = w - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// The state is two values per weight: 8 bytes in fp32.
struct adam {
  static constexpr char const* name = "adam";

  /// m and v of the equations: exponential moving averages of the gradient and of the squared gradient.
  template <class real> using state = adamw::state<real>;
  static constexpr char const* state_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr bool state_signed[] = {true, false};
  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 1e-3f; // at least 0, before the schedule
    float beta1 = 0.9f;          // decay rate of m, in [0, 1)
    float beta2 = 0.999f;        // decay rate of v, in [0, 1)
    float epsilon = 1e-8f;       // added to the root, above 0
    float weight_decay = 0;      // at least 0; adds weight_decay w to gradients (by default, not for biases and norms)
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite.
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".beta1", h.beta1, number_range::below_one);
    check_number(name, ".beta2", h.beta2, number_range::below_one);
    check_number(name, ".epsilon", h.epsilon, number_range::above_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
  }
  /// Hyperparameters of one step.
  template <class real> struct prepared {
    adamw::prepared<real> moments; // hyperparameters of AdamW without weight decay
    real weight_decay;             // coefficient of the L2 term
  };

  /// The hyperparameters of step t, computed in double on the host. t counts from 1.
  template <class real> static prepared<real> prepare(hyper const& h, optimizer_step t) {
    return {adamw::prepare<real>({h.learning_rate, h.beta1, h.beta2, h.epsilon, 0}, t), real(h.weight_decay)};
  }

  /// Updates the state and returns the new weight.
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, prepared<real> const& h,
                                    optimizer_step t) {
    return adamw::update<real>(weight, gradient + h.weight_decay * weight, s, h.moments, t);
  }
};

} // namespace constrain::optimizer
