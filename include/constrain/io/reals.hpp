#pragma once

#include "constrain/base/bfloat16.hpp"
#include "constrain/base/float16.hpp"
#include "constrain/base/variant.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The exact value of the IEEE 754 half-precision number with these bits.
constexpr float half_value(std::uint16_t bits) noexcept {
  float16 half;
  half.bits = bits;
  return half;
}

/// Whether `read_reals` supports a safetensors dtype: F64, F32, BF16, F16.
constexpr bool is_real(std::string_view dtype) {
  return dtype == "F64" || dtype == "F32" || dtype == "BF16" || dtype == "F16";
}

/// Fills `to` with the first `count` elements of a safetensors tensor, converted to `real`. `dtype`: see `is_real`.
/// `bytes`: at least `count` elements; may be unaligned.
template <class real>
void read_reals(std::string_view dtype, std::span<std::byte const> bytes, real* to, std::size_t count) {
  auto const read = [&]<class stored>(stored element) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
      to[i] = static_cast<real>(element);
    }
  };
  if (dtype == "F64") read(double{});
  else if (dtype == "F32") read(float{});
  else if (dtype == "F16") read(float16{});
  else read(bfloat16{});
}

} // namespace constrain::io
