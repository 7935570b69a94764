#pragma once

#include "constrain/device/math.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The hyperbolic tangent.
struct tanh {
  static constexpr bool derivative_uses_input = false;

  /// tanh(x).
  template <class real> CT_HOST_DEVICE static real forward(real x) { return math::tanh(x); }
  /// dx from y and dy; the first argument, x, is not used.
  template <class real> CT_HOST_DEVICE static real gradient(real, real y, real dy) { return dy * (1 - y * y); }
};

} // namespace op

/// The hyperbolic tangent, element by element. x may have any shape. Refused: token ids.
constexpr value tanh(value x, int line = __builtin_LINE()) { return elementwise<op::tanh>(x, line); }

} // namespace constrain
