#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr std::int32_t bits_of_smallest_normal = 113 << 23;   // of the float 2^-14, the smallest normal half
inline constexpr std::int32_t bits_rounded_to_infinity = 0x477FF000; // of the float 65520, which rounds to infinity

// The conversions of float16, for `integers` = std::int32_t and `floats` = float, or for GCC vectors of these types.
// The conversions have no branches, so compilers vectorize loops that call them. By default, g++ does not vectorize a
// loop with a branch around floating-point arithmetic (-ftrapping-math), nor a loop with F16C intrinsics. F16C also
// converts NaNs differently from these functions.

/// a < limit ? x : y, for each element; a and limit must not be negative.
template <class integers>
CT_HOST_DEVICE constexpr integers where_less(integers a, std::int32_t limit, integers x, integers y) {
  return y ^ ((x ^ y) & ((a - limit) >> 31));
}

/// Converts halves to floats. The argument holds the bits of the halves; the result holds the bits of the floats.
template <class floats, class integers> CT_HOST_DEVICE constexpr integers float_bits_of_half(integers half) {
  integers const zero = half & 0, magnitude = half & 0x7FFF, shifted = magnitude << 13;
  // `shifted + bits_of_smallest_normal` holds the bits of 2^-14 (1 + m), where m is the mantissa in [0, 1). Subtracting
  // 2^-14 leaves 2^-14 m, the value of the subnormal half.
  auto const subnormal =
      __builtin_bit_cast(integers, __builtin_bit_cast(floats, shifted + bits_of_smallest_normal) - 0x1p-14f);
  // A normal half needs only a new exponent bias: 127 instead of 15, a difference of 112.
  auto const finite = where_less(magnitude, 0x400, subnormal, shifted + (112 << 23));
  auto const number = where_less(magnitude, 0x7C00, finite, zero + 0x7F800000);
  // Moves the sign to the top bit without overflow.
  auto const sign = (half & 0x8000) * -0x10000;
  return where_less(magnitude, 0x7C01, number | sign, zero + 0x7FFFFFFF);
}

/// Converts floats to the nearest halves, ties to even. The argument holds the bits of the floats; the result holds the
/// bits of the halves.
template <class floats, class integers> CT_HOST_DEVICE constexpr integers half_bits_of_float(integers u) {
  integers const zero = u & 0, magnitude = u & 0x7FFFFFFF;
  // Subtracts 112, the difference of the exponent biases. Adding 0xFFF and the lowest kept bit rounds ties to even. The
  // subtraction comes before the addition, so that NaNs cause no overflow.
  auto const normal = (magnitude - ((112 << 23) - 0xFFF) + (magnitude >> 13 & 1)) >> 13;
  // Floats in [0.5, 1) are 2^-24 apart, and so are subnormal halves: adding 0.5 rounds to a subnormal half.
  auto const subnormal = __builtin_bit_cast(integers, __builtin_bit_cast(floats, magnitude) + 0.5f) - 0x3F000000;
  auto const finite = where_less(magnitude, bits_of_smallest_normal, subnormal, normal);
  auto const number = where_less(magnitude, bits_rounded_to_infinity, finite, zero + 0x7C00);
  return where_less(magnitude, 0x7F800001, number | (u >> 16 & 0x8000), zero + 0x7FFF);
}

/// The conversions of one element. On CUDA devices each is one instruction, the same as in cuda_fp16.h.
CT_HOST_DEVICE constexpr std::uint16_t half_of_float(float x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) {
    std::uint16_t half = 0;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
  }
#endif
  return static_cast<std::uint16_t>(half_bits_of_float<float>(__builtin_bit_cast(std::int32_t, x)));
}
CT_HOST_DEVICE constexpr float float_of_half(std::uint16_t half) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) {
    float x = 0;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
  }
#endif
  return __builtin_bit_cast(float, float_bits_of_half<float>(std::int32_t{half}));
}

} // namespace detail

/// IEEE 754 binary16 ("half"): 1 sign bit, 5 exponent bits, 10 mantissa bits. The largest finite value is 65504, the
/// smallest positive normal value is 2^-14, and the smallest positive subnormal value is 2^-24. float16 is only for
/// storage: arithmetic converts to float. The conversions from and to float are bit-identical to those of `__half` in
/// the CUDA Toolkit's cuda_fp16.h.
struct float16 {
  std::uint16_t bits = 0; // sign, exponent, mantissa

  float16() = default;
  /// Rounds to nearest, ties to even. Magnitudes of at least 65520 become infinity, with their sign; every NaN becomes
  /// the NaN 0x7FFF.
  CT_HOST_DEVICE constexpr float16(float x) noexcept : bits(detail::half_of_float(x)) {}
  /// Exact: a float can hold every float16. Every NaN becomes the NaN 0x7FFFFFFF.
  CT_HOST_DEVICE constexpr operator float() const noexcept { return detail::float_of_half(bits); }
};

} // namespace constrain
