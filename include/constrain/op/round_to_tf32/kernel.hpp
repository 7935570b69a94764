#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/round_to_tf32/round_to_tf32.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The kernel's function: x, rounded to TF32 (see op::round_to_tf32).
struct rounded_to_tf32 {
  CT_HOST_DEVICE float operator()(float x) const {
    constexpr std::uint32_t dropped = 0x1FFFu; // the 13 lowest bits
    auto const bits = __builtin_bit_cast(std::uint32_t, x);
    auto const rounded = (bits + (dropped >> 1) + (bits >> 13 & 1u)) & ~dropped;
    bool const finite = (bits & 0x7F800000u) != 0x7F800000u;
    return __builtin_bit_cast(float, finite ? rounded : bits);
  }
};

template <class device> struct kernel<op::round_to_tf32, device> {
  static void run(call const& c, tensor<float const> x, tensor<float> y) {
    map_elements(device{}, c, y.count, rounded_to_tf32{}, y.data, x.data);
  }
};

} // namespace constrain
