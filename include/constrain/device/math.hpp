#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/base/variant.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

/// Forces inlining: a loop that contains a call is not vectorized.
#define CT_VECTORIZED [[gnu::always_inline]] inline

/// Element-wise mathematical functions for every device. On the host, the float versions, except `exp2` and `larger`,
/// have no branches and no calls, so loops that use them vectorize even without -ffast-math; double uses the standard
/// library. On CUDA, both types use the CUDA math library, except the float functions whose comments say otherwise. The
/// stated errors, except those for CUDA devices, are the largest errors measured for the host's float versions, with
/// and without fused multiply-add. exp and sqrt were measured over all floats, and the other functions over all floats
/// of magnitude 2^-8 to 2^7 and a sample of the remaining floats. With -ffast-math, errors can be larger, and results
/// for infinity and NaN are unspecified, except those of `finite`. The polynomials are minimax fits (Remez) made for
/// this file.
namespace constrain::inline CONSTRAIN_VARIANT::math {

namespace libm = constrain::detail::libm;

/// float or double.
template <class real> concept real_number = std::is_same_v<real, float> || std::is_same_v<real, double>;

/// Infinity, as a constant, because device code cannot call std::numeric_limits.
template <real_number real> inline constexpr real infinity = std::numeric_limits<real>::infinity();

/// a * b + c on the host, rounded once if the target has FMA. Unlike with contraction by the compiler, the result is
/// the same with every compiler, and in vectorized and scalar iterations.
template <real_number real>
CT_VECTORIZED real multiply_add(real a, std::type_identity_t<real> b, std::type_identity_t<real> c) noexcept {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return libm::fma(a, b, c);
#else
  return a * b + c;
#endif
}

namespace detail {

/// c0 + c1 x + c2 x^2 + ...
template <class... reals> CT_VECTORIZED float polynomial(float x, float c0, reals... coefficients) noexcept {
  if constexpr (sizeof...(coefficients) == 0) return c0;
  else return multiply_add(x, polynomial(x, coefficients...), c0);
}

/// `condition ? a : b`, computed on bits, so that compilers do not emit a branch.
CT_VECTORIZED float select(bool condition, float a, float b) noexcept {
  std::uint32_t const mask = condition ? ~std::uint32_t{0} : 0;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & mask) | (std::bit_cast<std::uint32_t>(b) & ~mask));
}

/// std::copysign, on bits.
CT_VECTORIZED float with_sign_of(float magnitude, float sign) noexcept {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(magnitude) & 0x7fffffffu) |
                              (std::bit_cast<std::uint32_t>(sign) & 0x80000000u));
}

/// std::fabs, on bits.
CT_VECTORIZED float magnitude(float x) noexcept {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
}

/// 2^exponent for exponents in [-126, 127]; infinity for 128.
CT_VECTORIZED float power_of_two(std::int32_t exponent) noexcept {
  return std::bit_cast<float>((static_cast<std::uint32_t>(exponent) + 127u) << 23);
}

/// e^x = significand * 2^exponent for x in [-104, 89]; for NaN, the significand is NaN.
struct exp_parts {
  float significand;
  std::int32_t exponent;
};
CT_VECTORIZED exp_parts exp_in_parts(float x) noexcept {
  // Adding `shift` leaves the integer nearest to x / log(2) in the low bits of the mantissa. Extracting this integer
  // with integer arithmetic is safe under -ffast-math.
  float const shift = 0x1.8p23f;
  float const shifted = multiply_add(x, 0x1.715476p+0f, shift);
  auto const exponent =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(shift));
  auto const n = static_cast<float>(exponent);
  // log(2) in two parts; the upper part has enough trailing zeros that its product with n is exact.
  float const r = multiply_add(n, -0x1.7f7d1cp-20f, multiply_add(n, -0x1.62e4p-1f, x));
  float const tail = polynomial(r, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.123a2p-7f, 0x1.6a23d6p-10f);
  return {1.0f + multiply_add(r * r, tail, r), exponent};
}

CT_VECTORIZED float exp_host(float x) noexcept {
  auto const y = exp_in_parts(select(x > 89.0f, 89.0f, select(x < -104.0f, -104.0f, x)));
  std::int32_t const half = y.exponent >> 1; // two scale factors: 2^128 and 2^-149 are not normal numbers
  return y.significand * power_of_two(half) * power_of_two(y.exponent - half);
}

CT_VECTORIZED float exp_or_zero_host(float x) noexcept {
  float const lowest_x = -87.0f; // exp(-87) is still a normal number
  auto const y = exp_in_parts(select(x < lowest_x, lowest_x, x));
  return select(x < lowest_x, 0.0f, y.significand * power_of_two(y.exponent));
}

CT_VECTORIZED float log_host(float x) noexcept {
  bool const subnormal = x < 0x1p-126f;
  float const scaled = x * select(subnormal, 0x1p23f, 1.0f);
  // Moves the interval of the significand from [1, 2) to [sqrt(1/2), sqrt(2)).
  std::uint32_t const offset = std::bit_cast<std::uint32_t>(scaled) - 0x3f3504f3u;
  auto const exponent = static_cast<float>((static_cast<std::int32_t>(offset) >> 23) - (subnormal ? 23 : 0));
  float const f = std::bit_cast<float>((offset & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float const s = f / (2.0f + f);
  float const z = s * s;
  float const series = z * polynomial(z, 0x1.55557ap-1f, 0x1.995e9cp-2f, 0x1.31e68ap-2f);
  float const half_square = 0.5f * f * f;
  float const low = multiply_add(s, half_square + series, exponent * 0x1.7f7d1cp-20f);
  float const y = multiply_add(exponent, 0x1.62e4p-1f, f - (half_square - low));
  float const inf = std::numeric_limits<float>::infinity();
  float const special = select(x == 0.0f, -inf, select(x < 0.0f, std::numeric_limits<float>::quiet_NaN(), x));
  return select((x > 0.0f) & (x < inf), y, special);
}

/// Uses the square root instruction if the compiler need not set errno. Otherwise, uses Newton's method from a
/// bit-level estimate, because code that sets errno is not vectorized.
CT_VECTORIZED float sqrt_host(float x) noexcept {
#if defined(__NO_MATH_ERRNO__)
  return libm::sqrt(x);
#else
  bool const tiny = x < 0x1p-60f; // if so, x is scaled up, because `residual` could be subnormal otherwise
  float const scaled = x * select(tiny, 0x1p64f, 1.0f);
  float y = std::bit_cast<float>(0x5f3759dfu - (std::bit_cast<std::uint32_t>(scaled) >> 1)); // 1 / sqrt within 3.5 %
  y *= 1.5f - 0.5f * scaled * y * y;
  y *= 1.5f - 0.5f * scaled * y * y;
  y *= 1.5f - 0.5f * scaled * y * y;
  float const root = scaled * y;
  float const high = std::bit_cast<float>(std::bit_cast<std::uint32_t>(root) & 0xfffff000u); // high * high is exact
  float const low = root - high;
  float const residual = scaled - high * high - 2.0f * high * low - low * low;
  float const result = (root + 0.5f * y * residual) * select(tiny, 0x1p-32f, 1.0f);
  float const inf = std::numeric_limits<float>::infinity();
  return select((x > 0.0f) & (x < inf), result, select(x < 0.0f, std::numeric_limits<float>::quiet_NaN(), x));
#endif
}

CT_VECTORIZED float tanh_host(float x) noexcept {
  float const abs_x = magnitude(x);
  float const z = x * x;
  float const small = polynomial(z, -0x1.55553ep-2f, 0x1.1109aep-3f, -0x1.b898f8p-5f, 0x1.54b90cp-6f, -0x1.82596ep-8f);
  float const large = 1.0f - 2.0f / (exp_host(2.0f * abs_x) + 1.0f);
  return with_sign_of(select(abs_x < 0.6f, multiply_add(abs_x * z, small, abs_x), large), x);
}

CT_VECTORIZED float erf_host(float x) noexcept {
  float const abs_x = magnitude(x);
  float const small = polynomial(x * x, 0x1.06eba6p-3f, -0x1.8126fap-2f, 0x1.ce1dd4p-4f, -0x1.b6beeap-6f,
                                 0x1.4876d8p-8f, -0x1.3f4f6p-11f);
  float const t = select(abs_x > 4.0f, 4.0f, abs_x);
  float const large = polynomial(t, 0x1.254366p-13f, 0x1.20beacp+0f, 0x1.460878p-1f, 0x1.ab27bcp-4f, -0x1.6eff1ap-6f,
                                 0x1.949f56p-9f, -0x1.a45e94p-13f); // -log(erfc(t))
  return select(abs_x < 0.9f, multiply_add(x, small, x), with_sign_of(1.0f - exp_host(-large), x));
}

CT_VECTORIZED float sigmoid_host(float x) noexcept {
  float const e = exp_host(-magnitude(x)); // at most 1, so neither the sum nor the quotient overflows
  float const sum = 1.0f + e;
  float const y = select(x < 0.0f, e, 1.0f) / sum;
  float const rounding_error = e - (sum - 1.0f);                             // the exact rounding error of the sum
  return multiply_add(y, -rounding_error * multiply_add(e, -0.5f, 1.0f), y); // 1 - e/2 approximates 1 / sum well enough
}

/// Clamps x to [low, high], where low < 0 < high; a NaN becomes `low` or `high`. Compares bits as integers. As signed
/// integers, positive floats keep their order, and negative floats are below them. As unsigned integers, negative
/// floats are above all positive floats, in reverse order.
CT_VECTORIZED float clamp(float x, float low, float high) noexcept {
  auto const capped = std::min(std::bit_cast<std::int32_t>(x), std::bit_cast<std::int32_t>(high));
  return std::bit_cast<float>(std::min(static_cast<std::uint32_t>(capped), std::bit_cast<std::uint32_t>(low)));
}

CT_VECTORIZED float gate_host(float x) noexcept {
  auto const e = exp_in_parts(clamp(-x, -87.0f, 89.0f)); // e^89 overflows to infinity, and the gate becomes 0
  return 1.0f / (1.0f + e.significand * power_of_two(e.exponent));
}

} // namespace detail

/// Whether x is neither infinite nor NaN. Tests bits, because -ffast-math lets compilers assume that all values are
/// finite. (Uses __builtin_bit_cast, because std::bit_cast is not a device function.)
template <real_number real> CT_HOST_DEVICE constexpr bool finite(real x) noexcept {
  if constexpr (std::is_same_v<real, float>) return (__builtin_bit_cast(std::uint32_t, x) & 0x7f800000u) != 0x7f800000u;
  else return (__builtin_bit_cast(std::uint64_t, x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

/// e^x; float: 1.01 ulp.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real exp(real x) noexcept {
#if defined(__CUDA_ARCH__)
  return ::exp(x);
#else
  if constexpr (std::is_same_v<real, float>) return detail::exp_host(x);
  else return libm::exp(x);
#endif
}

/// 2^x. On CUDA devices, the float version is one instruction, with a relative error of 2^-22 and 0 instead of
/// subnormal results (PTX ISA, ex2.approx.ftz). The host uses the standard library.
template <real_number real> CT_HOST_DEVICE real exp2(real x) noexcept {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<real, float>) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
  } else return ::exp2(x);
#else
  return libm::exp2(x);
#endif
}

/// e^x for x up to 88. The host's float version is faster than `exp`. It returns 0 below -87, where e^x is less than
/// 1.7e-38; elsewhere, its error is 1.01 ulp. On CUDA devices, the float version is two instructions, with a relative
/// error of 2^-22 + 2^-23 |x| and 0 instead of subnormal results. The double versions are the same as `exp`.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real exp_or_zero(real x) noexcept {
  if constexpr (std::is_same_v<real, float>) {
#if defined(__CUDA_ARCH__)
    return exp2(x * 1.44269504088896340736f);
#else
    return detail::exp_or_zero_host(x);
#endif
  } else return exp(x);
}

/// The larger of two numbers; if one of them is NaN, the other one.
template <real_number real> CT_HOST_DEVICE real larger(real a, real b) noexcept {
#if defined(__CUDA_ARCH__)
  return ::fmax(a, b);
#else
  return a > b || b != b ? a : b;
#endif
}

/// The natural logarithm: -infinity at 0, NaN below 0; float: 0.85 ulp.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real log(real x) noexcept {
#if defined(__CUDA_ARCH__)
  return ::log(x);
#else
  if constexpr (std::is_same_v<real, float>) return detail::log_host(x);
  else return libm::log(x);
#endif
}

/// The hyperbolic tangent; float: 1.34 ulp.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real tanh(real x) noexcept {
#if defined(__CUDA_ARCH__)
  return ::tanh(x);
#else
  if constexpr (std::is_same_v<real, float>) return detail::tanh_host(x);
  else return libm::tanh(x);
#endif
}

/// The error function, 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x; float: 1.41 ulp.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real erf(real x) noexcept {
#if defined(__CUDA_ARCH__)
  return ::erf(x);
#else
  if constexpr (std::is_same_v<real, float>) return detail::erf_host(x);
  else return libm::erf(x);
#endif
}

/// The square root, correctly rounded unless -ffast-math (nvcc: --use_fast_math) permits an approximation; NaN below 0.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real sqrt(real x) noexcept {
#if defined(__CUDA_ARCH__)
  return ::sqrt(x);
#else
  if constexpr (std::is_same_v<real, float>) return detail::sqrt_host(x);
  else return libm::sqrt(x);
#endif
}

/// The square root; NaN below 0. On CUDA devices, the float version has no branches, and an error of 1 ulp
/// (sqrt.approx). The other versions are the same as `sqrt`.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real fast_sqrt(real x) noexcept {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<real, float>) {
    asm("sqrt.approx.f32 %0, %0;" : "+f"(x));
    return x;
  } else
#endif
    return sqrt(x);
}

/// a / b. On CUDA devices, the float version has no branches, and an error of 2 ulp (div.full). The other versions are
/// correctly rounded unless -ffast-math permits an approximation.
template <real_number real>
CT_VECTORIZED CT_HOST_DEVICE real fast_quotient(real a, std::type_identity_t<real> b) noexcept {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<real, float>) {
    asm("div.full.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
  } else
#endif
    return a / b;
}

/// e^x - 1, accurate near 0.
CT_HOST_DEVICE inline double expm1(double x) noexcept {
#if defined(__CUDA_ARCH__)
  return ::expm1(x);
#else
  return libm::expm1(x);
#endif
}

/// `base` to the power `exponent`.
CT_HOST_DEVICE inline double pow(double base, double exponent) noexcept {
#if defined(__CUDA_ARCH__)
  return ::pow(base, exponent);
#else
  return libm::pow(base, exponent);
#endif
}

/// 1 / (1 + e^-x); float: 1.97 ulp.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real sigmoid(real x) noexcept {
#if defined(__CUDA_ARCH__)
  return real(1) / (real(1) + ::exp(-x));
#else
  if constexpr (std::is_same_v<real, float>) return detail::sigmoid_host(x);
  else return 1.0 / (1.0 + libm::exp(-x));
#endif
}

/// Fast sigmoid for x * sigmoid(x). The host's float version returns 0 below -88.4 and does not propagate NaN (the
/// product does); its error is 2.47 ulp for magnitudes up to 87. On CUDA devices, the float version returns 0 below
/// -87.4, and computes with approximate instructions (`exp_or_zero`, and rcp.approx.ftz, with an error of 1 ulp). The
/// double versions are the same as `sigmoid`.
template <real_number real> CT_VECTORIZED CT_HOST_DEVICE real gate(real x) noexcept {
  if constexpr (std::is_same_v<real, float>) {
#if defined(__CUDA_ARCH__)
    float y = 1 + exp_or_zero(-x);
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(y));
    return y;
#else
    return detail::gate_host(x);
#endif
  } else return sigmoid(x);
}

} // namespace constrain::math

#undef CT_VECTORIZED
