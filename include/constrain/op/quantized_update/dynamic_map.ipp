#pragma once

#include "constrain/op/quantized_update/dynamic_map.hpp"

#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE dynamic_map const& dynamic_map::of(bool is_signed) {
  static dynamic_map const with_sign(true), without_sign(false);
  return is_signed ? with_sign : without_sign;
}

CONSTRAIN_INLINE dynamic_map::dynamic_map(bool is_signed) : zero_(zero(is_signed)) {
  fill_values(is_signed);
  fill_search();
}

CONSTRAIN_INLINE void dynamic_map::fill_values(bool is_signed) {
  constexpr float powers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  values_[zero_] = 0;
  values_[codes - 1] = 1;
  int offset = 1;
  for (int decade = 0; decade < 7; ++decade) {
    int const intervals = 1 << (is_signed ? decade : decade + 1);
    auto const width = (1 - 0.1f) / static_cast<float>(intervals);
    // As PyTorch's linspace: from both ends to the middle, rounded once.
    auto const boundary = [&](int i) {
      return static_cast<float>(i < (intervals + 1) / 2 ? double{0.1f} + double{width} * i
                                                        : 1 - double{width} * (intervals - i));
    };
    for (int i = 0; i < intervals; ++i, ++offset) {
      float const value = powers[decade] * ((boundary(i) + boundary(i + 1)) / 2);
      values_[zero_ + offset] = value;
      if (is_signed) values_[zero_ - offset] = -value;
    }
  }
}

CONSTRAIN_INLINE void dynamic_map::fill_search() {
  int const most = codes - 1 - zero_;
  for (int i = 0; i < codes; ++i)
    midpoints_[i] =
        i < most ? (values_[zero_ + i] + values_[zero_ + i + 1]) / 2 : std::numeric_limits<float>::infinity();
  int offset = 0;
  for (int cell = 0; cell < cells; ++cell) {
    auto const smallest = __builtin_bit_cast(float, static_cast<std::int32_t>(cell == 0 ? 0 : first_cell + cell) << 16);
    while (smallest > midpoints_[offset]) ++offset;
    first_[cell] = offset;
  }
}

} // namespace constrain
