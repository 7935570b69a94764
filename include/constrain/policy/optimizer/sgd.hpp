#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// w -= learning_rate * (g + weight_decay * w)
struct sgd {
  static constexpr char const* name = "sgd";

  template <class real> struct state {};
  struct hyper {
    float learning_rate = 1e-3f; // before the schedule
    float weight_decay = 0;      // added to the gradient, times the weight; matrices and embeddings only
  };
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
  }

  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, optimizer_step) {
    return weight - real(h.learning_rate) * (gradient + real(h.weight_decay) * weight);
  }
};

/// v = momentum * v + g + weight_decay * w; w -= learning_rate * v (Polyak 1964, as in Sutskever et al. 2013 without
/// dampening).
struct momentum {
  static constexpr char const* name = "momentum";

  template <class real> struct state { real velocity; };
  struct hyper {
    float learning_rate = 1e-3f; // before the schedule
    float momentum = 0.9f;       // share of the last velocity that stays
    float weight_decay = 0;      // added to the gradient, times the weight; matrices and embeddings only
  };
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
    check_number(name, ".momentum", h.momentum, number_range::from_zero);
  }

  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, optimizer_step) {
    s.velocity = real(h.momentum) * s.velocity + gradient + real(h.weight_decay) * weight;
    return weight - real(h.learning_rate) * s.velocity;
  }
};

/// As `momentum`, but steps along g + momentum * v (Nesterov 1983; Sutskever et al. 2013).
struct nesterov {
  static constexpr char const* name = "nesterov";

  template <class real> using state = momentum::state<real>;
  using hyper = momentum::hyper;
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
    check_number(name, ".momentum", h.momentum, number_range::from_zero);
  }

  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, optimizer_step) {
    real const g = gradient + real(h.weight_decay) * weight;
    s.velocity = real(h.momentum) * s.velocity + g;
    return weight - real(h.learning_rate) * (g + real(h.momentum) * s.velocity);
  }
};

} // namespace constrain::optimizer
