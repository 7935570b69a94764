#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2), with decoupled weight decay:
///
///     c = beta1 m + (1 - beta1) g
///     w = w - lr (sign(c) + weight_decay w)            sign(0) = 0
///     m = beta2 m + (1 - beta2) g
///
/// Apart from weight decay, every weight whose c is not 0 moves by the learning rate in each step. The paper recommends
/// a learning rate 3 to 10 times smaller than AdamW's, and a weight decay larger by the same factor. The state is one
/// value per weight: 4 bytes in fp32.
struct lion {
  static constexpr char const* name = "lion";

  /// m in the equations above: an exponential moving average of the gradient.
  template <class real> struct state { real exp_avg; };
  static constexpr char const* state_names[] = {"exp_avg"};
  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 1e-4f; // at least 0, before the schedule
    float beta1 = 0.9f;          // weight of m in c, in [0, 1)
    float beta2 = 0.99f;         // decay rate of m, in [0, 1)
    float weight_decay = 0;      // at least 0; decoupled and multiplied by the learning rate (by default,
                                 // biases and norms do not decay)
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite.
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".beta1", h.beta1, number_range::below_one);
    check_number(name, ".beta2", h.beta2, number_range::below_one);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
  }

  /// Updates the state and returns the new weight.
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, optimizer_step) {
    real const c = real(h.beta1) * s.exp_avg + (1 - real(h.beta1)) * gradient;
    real const sign = real(c > 0) - real(c < 0);
    s.exp_avg = real(h.beta2) * s.exp_avg + (1 - real(h.beta2)) * gradient;
    return weight - real(h.learning_rate) * (sign + real(h.weight_decay) * weight);
  }
};

} // namespace constrain::optimizer
