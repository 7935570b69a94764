#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/base/variant.hpp"

/// The sine and the cosine of an angle in full turns. In device code, the sine and the cosine of an angle in radians
/// would need local memory, because the angle may be large.
namespace constrain::inline CONSTRAIN_VARIANT::math {

/// The sine of 2 pi `turns`.
CT_HOST_DEVICE inline double sine_of_turns(double turns) noexcept {
#if defined(__CUDA_ARCH__)
  return ::sinpi(2 * turns);
#else
  return constrain::detail::libm::sin(6.283185307179586 * (turns - constrain::detail::libm::floor(turns + 0.5)));
#endif
}

/// The cosine of 2 pi `turns`.
CT_HOST_DEVICE inline double cosine_of_turns(double turns) noexcept {
#if defined(__CUDA_ARCH__)
  return ::cospi(2 * turns);
#else
  return constrain::detail::libm::cos(6.283185307179586 * (turns - constrain::detail::libm::floor(turns + 0.5)));
#endif
}

} // namespace constrain::math
