#pragma once

#include "constrain/base/variant.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The value of an IEEE 754 half-precision number (5 bits of exponent, 10 of mantissa), exact.
constexpr float half_value(std::uint16_t bits) noexcept {
  std::uint32_t const sign = (bits & 0x8000u) << 16;
  std::uint32_t const magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  auto const value = static_cast<float>(magnitude) * 0x1p-24f; // subnormal
  return sign != 0 ? -value : value;
}

/// Whether `read_reals` supports a safetensors dtype: F64, F32, BF16, F16.
constexpr bool is_real(std::string_view dtype) {
  return dtype == "F64" || dtype == "F32" || dtype == "BF16" || dtype == "F16";
}

/// Fills `to` with the elements of a safetensors tensor, converted to `real`. `dtype`: see `is_real`; `bytes`: at least
/// `to.size()` elements, may be unaligned.
template <class real> void read_reals(std::string_view dtype, std::span<std::byte const> bytes, std::span<real> to) {
  auto const read = [&]<class stored>(stored, auto const& convert) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      stored element;
      std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
      to[i] = static_cast<real>(convert(element));
    }
  };
  if (dtype == "F64") read(double{}, [](double x) { return x; });
  else if (dtype == "F32") read(float{}, [](float x) { return x; });
  else if (dtype == "F16") read(std::uint16_t{}, [](std::uint16_t x) { return half_value(x); });
  else read(std::uint16_t{}, [](std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); });
}

} // namespace constrain::io
