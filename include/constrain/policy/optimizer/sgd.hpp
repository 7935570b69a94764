#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// Stochastic gradient descent (Robbins & Monro 1951): w = w - learning_rate (g + weight_decay w). SGD stores nothing
/// per weight.
struct sgd {
  static constexpr char const* name = "sgd";

  /// No state.
  template <class real> struct state {};
  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 1e-3f; // at least 0, before the schedule
    float weight_decay = 0;      // at least 0; adds weight_decay w to gradients (by default, not for biases and norms)
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite.
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
  }

  /// Returns the new weight.
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, optimizer_step) {
    return weight - real(h.learning_rate) * (gradient + real(h.weight_decay) * weight);
  }
};

/// SGD with momentum (Polyak 1964), like torch.optim.SGD without dampening:
///
///     v = momentum v + g + weight_decay w
///     w = w - learning_rate v
///
/// The state is one value per weight: 4 bytes in fp32.
struct momentum {
  static constexpr char const* name = "momentum";

  /// The v of the equations above.
  template <class real> struct state { real momentum_buffer; };
  static constexpr char const* state_names[] = {"momentum_buffer"};
  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 1e-3f; // at least 0, before the schedule
    float momentum = 0.9f;       // multiplies v in each step, at least 0
    float weight_decay = 0;      // at least 0; adds weight_decay w to gradients (by default, not for biases and norms)
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite.
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
    check_number(name, ".momentum", h.momentum, number_range::from_zero);
  }

  /// Updates the state and returns the new weight.
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, optimizer_step) {
    s.momentum_buffer = real(h.momentum) * s.momentum_buffer + gradient + real(h.weight_decay) * weight;
    return weight - real(h.learning_rate) * s.momentum_buffer;
  }
};

/// SGD with Nesterov momentum (Nesterov 1983; Sutskever et al. 2013), like torch.optim.SGD with nesterov=True:
///
///     v = momentum v + g + weight_decay w
///     w = w - learning_rate (g + weight_decay w + momentum v)
///
/// The state is one value per weight: 4 bytes in fp32.
struct nesterov {
  static constexpr char const* name = "nesterov";

  /// The v of the equations above, as in `momentum`.
  template <class real> using state = momentum::state<real>;
  static constexpr char const* state_names[] = {"momentum_buffer"};
  using hyper = momentum::hyper;
  /// Throws `error` if a hyperparameter is outside its range or not finite.
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
    check_number(name, ".momentum", h.momentum, number_range::from_zero);
  }

  /// Updates the state and returns the new weight.
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, optimizer_step) {
    real const g = gradient + real(h.weight_decay) * weight;
    s.momentum_buffer = real(h.momentum) * s.momentum_buffer + g;
    return weight - real(h.learning_rate) * (g + real(h.momentum) * s.momentum_buffer);
  }
};

} // namespace constrain::optimizer
