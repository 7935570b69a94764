#pragma once

#include "constrain/op/quantized_update/dynamic_map.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE dynamic_map const& dynamic_map::of(bool is_signed) {
  static dynamic_map const signed_map(true), unsigned_map(false);
  return is_signed ? signed_map : unsigned_map;
}

CONSTRAIN_INLINE dynamic_map::dynamic_map(bool is_signed) {
  constexpr float powers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  int const zero_code = zero(is_signed);
  values_[zero_code] = 0;
  values_[codes - 1] = 1;
  nearest_.zero_ = zero_code;
  int first = 1; // code of the decade's first value, minus the code of 0
  for (int decade = 0; decade < 7; ++decade) {
    int const intervals = 1 << (is_signed ? decade : decade + 1);
    auto const width = (1 - 0.1f) / static_cast<float>(intervals);
    // As in torch.linspace, each boundary is computed from the nearer end, and rounded once.
    auto const boundary = [&](int i) {
      return static_cast<float>(i < (intervals + 1) / 2 ? double{0.1f} + double{width} * i
                                                        : 1 - double{width} * (intervals - i));
    };
    for (int i = 0; i < intervals; ++i) {
      float const value = powers[decade] * ((boundary(i) + boundary(i + 1)) / 2);
      values_[zero_code + first + i] = value;
      if (is_signed) values_[zero_code - first - i] = -value;
    }
    // The value nearest to a number in a decade is the midpoint of the interval that contains it, with two exceptions.
    // At the beginning of a decade, the preceding value may be nearer: 0, or the last midpoint of the previous decade,
    // whose intervals are narrower. At the end of the last decade, 1 may be nearer.
    nearest_.lower_bound_[decade] = (values_[zero_code + first - 1] + values_[zero_code + first]) / 2;
    nearest_.slope_[decade] = static_cast<float>(intervals / (0.9 * double{powers[decade]}));
    nearest_.intercept_[decade] = static_cast<float>(first - intervals / 9.0);
    first += intervals;
    nearest_.max_offset_[decade] = static_cast<float>(first - 1);
  }
  nearest_.lower_bound_[7] = (values_[codes - 2] + 1) / 2;
  nearest_.slope_[7] = 0;
  nearest_.intercept_[7] = nearest_.max_offset_[7] = static_cast<float>(first);
}

} // namespace constrain
