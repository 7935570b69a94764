#pragma once

#include "constrain/device/math.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// x Phi(x), where Phi is the cumulative distribution function of the standard normal distribution (Hendrycks & Gimpel
/// 2016).
struct gelu {
  static constexpr bool derivative_uses_output = false;

  /// x Phi(x), where Phi(x) = (1 + erf(x / sqrt(2))) / 2.
  template <class real> CT_HOST_DEVICE static real forward(real x) {
    return real(0.5) * x * (1 + math::erf(x * real(0.70710678118654752440)));
  }
  /// dx = dy (Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)); the second argument, y, is not used.
  template <class real> CT_HOST_DEVICE static real gradient(real x, real, real dy) {
    real const cumulative = real(0.5) * (1 + math::erf(x * real(0.70710678118654752440)));
    real const density = real(0.39894228040143267794) * math::exp(real(-0.5) * x * x);
    return dy * (cumulative + x * density);
  }
};

/// The tanh approximation of gelu: x/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks & Gimpel 2016).
/// The code computes x sigmoid(2u), which is mathematically equal and avoids the cancellation near tanh(u) = -1.
struct gelu_tanh {
  static constexpr bool derivative_uses_output = false;

  /// x sigmoid(2u).
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x * gate(x, x * x); }
  /// dx from x and dy; the second argument, y, is not used.
  template <class real> CT_HOST_DEVICE static real gradient(real x, real, real dy) {
    real const square = x * x;
    real const s = gate(x, square);
    return dy * (s + x * (s - s * s) * (real(slope) + real(3 * curve) * square));
  }

private:
  static constexpr double slope = 2 * 0.79788456080286535588, curve = slope * 0.044715; // 2u = slope x + curve x^3

  /// sigmoid(2u). `square`: x^2.
  template <class real> CT_HOST_DEVICE static real gate(real x, real square) {
    return math::gate(x * (real(slope) + real(curve) * square));
  }
};

} // namespace op

/// GELU in its exact form with erf (PyTorch's default), element by element. x may have any shape. Refused: token ids.
constexpr value gelu(value x, int line = __builtin_LINE()) { return elementwise<op::gelu>(x, line); }
/// GELU in its tanh approximation, as in GPT-2, element by element. x may have any shape. Refused: token ids.
constexpr value gelu_tanh(value x, int line = __builtin_LINE()) { return elementwise<op::gelu_tanh>(x, line); }

} // namespace constrain
