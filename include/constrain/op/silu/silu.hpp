#pragma once

#include "constrain/device/math.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// x sigmoid(x) (Elfwing et al. 2017), also known as swish.
struct silu {
  static constexpr bool derivative_uses_output = false;

  /// x sigmoid(x).
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x * math::sigmoid(x); }
  /// dx from x and dy; the second argument, y, is not used.
  template <class real> CT_HOST_DEVICE static real gradient(real x, real, real dy) {
    real const s = math::sigmoid(x);
    return dy * s * (1 + x * (1 - s));
  }
};

} // namespace op

/// SiLU, x sigmoid(x), element by element. x may have any shape. Refused: token ids.
constexpr value silu(value x, int line = __builtin_LINE()) { return elementwise<op::silu>(x, line); }

} // namespace constrain
