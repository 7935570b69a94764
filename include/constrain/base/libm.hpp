#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Functions of the C math library, for the host. ConsTrain does not include <cmath>, because <cmath> also declares the
/// special functions of C++17, and these would make every program slower to compile.
namespace libm {

/// e^x.
inline double exp(double x) noexcept { return __builtin_exp(x); }
/// 2^x.
inline double exp2(double x) noexcept { return __builtin_exp2(x); }
/// 2^x.
inline float exp2(float x) noexcept { return __builtin_exp2f(x); }
/// e^x - 1, accurate near 0.
inline double expm1(double x) noexcept { return __builtin_expm1(x); }
/// The natural logarithm.
inline double log(double x) noexcept { return __builtin_log(x); }
/// The logarithm to base 10.
inline double log10(double x) noexcept { return __builtin_log10(x); }
/// `base` to the power `exponent`.
inline double pow(double base, double exponent) noexcept { return __builtin_pow(base, exponent); }
/// The square root, correctly rounded unless -ffast-math permits an approximation.
inline double sqrt(double x) noexcept { return __builtin_sqrt(x); }
/// The square root, correctly rounded unless -ffast-math permits an approximation.
inline float sqrt(float x) noexcept { return __builtin_sqrtf(x); }
/// a * b + c, rounded once.
inline double fma(double a, double b, double c) noexcept { return __builtin_fma(a, b, c); }
/// a * b + c, rounded once.
inline float fma(float a, float b, float c) noexcept { return __builtin_fmaf(a, b, c); }
/// The sine of an angle in radians.
inline double sin(double x) noexcept { return __builtin_sin(x); }
/// The cosine of an angle in radians.
inline double cos(double x) noexcept { return __builtin_cos(x); }
/// The hyperbolic tangent.
inline double tanh(double x) noexcept { return __builtin_tanh(x); }
/// The error function, 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.
inline double erf(double x) noexcept { return __builtin_erf(x); }
/// The largest integer that is at most x.
inline double floor(double x) noexcept { return __builtin_floor(x); }
/// The smallest integer that is at least x.
inline double ceil(double x) noexcept { return __builtin_ceil(x); }

} // namespace libm

} // namespace constrain::detail
