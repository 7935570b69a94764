#pragma once

#include "constrain/base/number_check.hpp"

#include "constrain/base/concat.hpp"

#include <charconv>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::string number_text(double x) {
  if (is_nan(x)) return "nan";
  if (!is_finite(x)) return __builtin_bit_cast(std::int64_t, x) < 0 ? "-inf" : "inf";
  char text[32];
  char const *const begin = text, *end = text;
  // Nine digits tell any two fp32 values apart, 17 any two fp64 values.
  for (int digits = 9; digits <= 17; ++digits) {
    end = std::to_chars(text, text + sizeof text, x, std::chars_format::general, digits).ptr;
    double as_double = 0;
    float as_float = 0;
    std::from_chars(begin, end, as_double), std::from_chars(begin, end, as_float);
    if (as_double == x || static_cast<double>(as_float) == x) break;
  }
  return {begin, end};
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void check_number(char const* owner, char const* field, double value,
                                                 number_range range) {
  constexpr char const* accepted[] = {
      "a finite number",         "a finite number of at least 0",  "a finite number above 0",
      "a number from 0 to 1",    "a number above 0 and at most 1", "a number of at least 0 and below 1",
      "a finite number above 1", "a number above 0 and below 1",   "a number from 2^-24 to 2^127"};
  if (!detail::is_within(value, range))
    detail::refuse_number(owner, field, detail::number_text(value), accepted[static_cast<int>(range)]);
}

[[gnu::cold]] CONSTRAIN_INLINE void check_count(char const* owner, char const* field, std::int64_t value,
                                                std::int64_t minimum) {
  if (value < minimum)
    detail::refuse_number(owner, field, concat({value}), concat({"an integer of at least ", minimum}));
}

} // namespace constrain
