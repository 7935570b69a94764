#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/round_to_tf32/round_to_tf32.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = x[i], rounded to 10 mantissa bits.
struct round_to_tf32_elements {
  float const* x;
  float* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    constexpr std::uint32_t dropped = 0x1FFFu; // the 13 lowest bits
    auto const bits = __builtin_bit_cast(std::uint32_t, x[i]);
    auto const rounded = (bits + (dropped >> 1) + (bits >> 13 & 1u)) & ~dropped;
    bool const finite = (bits & 0x7F800000u) != 0x7F800000u;
    y[i] = __builtin_bit_cast(float, finite ? rounded : bits);
  }
};

template <class device> struct kernel<op::round_to_tf32, device> {
  static void run(call const& c, tensor<float const> x, tensor<float> y) {
    for_elements(device{}, c, y.count, round_to_tf32_elements{x.data, y.data});
  }
};

} // namespace constrain
