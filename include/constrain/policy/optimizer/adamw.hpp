#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"
#include "constrain/device/math.hpp"

#include <cmath>

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2): 8 bytes of state a weight in fp32.
struct adamw {
  static constexpr char const* name = "adamw";

  template <class real> struct state { real momentum, variance; };
  struct hyper {
    float learning_rate = 5e-5f; // before the schedule
    float beta1 = 0.9f;          // decay of the average of gradients
    float beta2 = 0.999f;        // decay of the average of their squares
    float epsilon = 1e-8f;       // added to the root of the second average
    float weight_decay = 0;      // per step, times the learning rate; matrices and embeddings only
  };
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".beta1", h.beta1, number_range::below_one);
    check_number(name, ".beta2", h.beta2, number_range::below_one);
    check_number(name, ".epsilon", h.epsilon, number_range::from_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
  }
  /// What depends on the step alone: the bias corrections (Kingma & Ba 2015, section 3), folded into two factors.
  template <class real> struct prepared { real beta1, beta2, epsilon, keep, step_size, inverse_root_correction2; };

  template <class real> static prepared<real> prepare(hyper const& h, optimizer_step t) {
    auto const steps = static_cast<double>(t.number);
    double const correction1 = 1 - std::pow(static_cast<double>(h.beta1), steps);
    double const correction2 = 1 - std::pow(static_cast<double>(h.beta2), steps);
    double const rate = h.learning_rate;
    return {real(h.beta1),
            real(h.beta2),
            real(h.epsilon),
            static_cast<real>(1 - rate * h.weight_decay),
            static_cast<real>(rate / correction1),
            static_cast<real>(1 / std::sqrt(correction2))};
  }

  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, prepared<real> const& h,
                                    optimizer_step) {
    s.momentum = h.beta1 * s.momentum + (1 - h.beta1) * gradient;
    s.variance = h.beta2 * s.variance + (1 - h.beta2) * gradient * gradient;
    real const root = math::sqrt(s.variance) * h.inverse_root_correction2;
    return weight * h.keep - h.step_size * s.momentum / (root + h.epsilon);
  }
};

} // namespace constrain::optimizer
