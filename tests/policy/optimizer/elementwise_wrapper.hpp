#pragma once

#include <constrain/constrain.hpp>

namespace constrain::test {

/// An element-wise optimizer outside of the library that wraps another one: multiplies the gradient by `factor`.
template <class O> struct scaled {
  using base = O;
  static constexpr char const* name = "scaled";
  static constexpr auto& state_names = O::state_names;
  struct hyper {
    float factor = 1;
    typename O::hyper base{};
  };
  template <class real> using state = typename O::template state<real>;
  template <class real> struct prepared {
    real factor;
    typename op::step_hyperparameters<O, real>::prepared base;
  };
  template <class real> static prepared<real> prepare(hyper const& h, optimizer_step t) {
    return {static_cast<real>(h.factor), op::step_hyperparameters<O, real>::prepare(h.base, t)};
  }
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, prepared<real> const& h,
                                    optimizer_step t) {
    return O::template update<real>(weight, h.factor * gradient, s, h.base, t);
  }
};

} // namespace constrain::test
