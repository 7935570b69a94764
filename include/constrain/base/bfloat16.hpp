#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// bfloat16, the upper half of a float: 1 sign bit, 8 exponent bits, 7 mantissa bits. It is only for storage:
/// arithmetic converts to float. The conversions use builtins, because by default device code cannot call
/// std::bit_cast.
struct bfloat16 {
  std::uint16_t bits = 0; // sign, exponent, mantissa

  bfloat16() = default;
  /// Rounds to nearest, ties to even. Magnitudes of at least 0x1.FFp127 become infinity; every NaN becomes the NaN
  /// 0x7FFF. On CUDA devices, the conversion is one instruction (cvt).
  CT_HOST_DEVICE constexpr bfloat16(float x) noexcept {
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) {
      std::uint32_t pair = 0; // with ptxas 13.0, the same instruction as for one value
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
      bits = static_cast<std::uint16_t>(pair);
      return;
    }
#endif
    auto const u = __builtin_bit_cast(std::uint32_t, x);
    auto const rounded = u + 0x7FFFu + (u >> 16 & 1u);
    bool const nan = (u & 0x7FFFFFFFu) > 0x7F800000u;
    bits = static_cast<std::uint16_t>(nan ? 0x7FFFu : rounded >> 16);
  }
  /// Exact: a float can hold every bfloat16.
  CT_HOST_DEVICE constexpr operator float() const noexcept {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};

} // namespace constrain
