#pragma once

#include "constrain/base/error.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The range of values that a numeric option may have.
enum class number_range : std::uint8_t {
  finite,               // any value except inf and nan
  from_zero,            // finite and at least 0
  above_zero,           // finite and above 0
  from_zero_to_one,     // at least 0 and at most 1
  above_zero_to_one,    // above 0 and at most 1
  below_one,            // at least 0 and below 1
  above_one,            // finite and above 1
  above_zero_below_one, // above 0 and below 1
  loss_scale,           // from `smallest_loss_scale` to `largest_loss_scale`
};

namespace detail {

/// The smallest loss scale. It is the smallest positive fp16 value, so that a scaled gradient of 1 is not 0 in fp16.
inline constexpr double smallest_loss_scale = 0x1p-24;
/// The largest loss scale: the largest power of two in fp32, so that kernels can convert every loss scale to fp32.
inline constexpr double largest_loss_scale = 0x1p127;
/// Bounds for the options of ops. Converted to fp32, a value of at least the first bound does not become 0, and a value
/// of at most the second does not become infinite.
inline constexpr double smallest_fp32_option = 1e-37, largest_fp32_option = 1e38;

/// Replacements for std::isfinite and std::isnan. `is_finite` and `is_nan` test bits, because with -ffast-math,
/// compilers assume that all numbers are finite.
constexpr bool is_finite(double x) {
  return (__builtin_bit_cast(std::uint64_t, x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}
constexpr bool is_nan(double x) {
  return !is_finite(x) && (__builtin_bit_cast(std::uint64_t, x) & 0x000fffffffffffffu) != 0;
}

/// Whether a number is finite and within a range.
constexpr bool is_within(double x, number_range range) {
  if (!is_finite(x)) return false;
  switch (range) {
  case number_range::from_zero: return x >= 0;
  case number_range::above_zero: return x > 0;
  case number_range::from_zero_to_one: return x >= 0 && x <= 1;
  case number_range::above_zero_to_one: return x > 0 && x <= 1;
  case number_range::below_one: return x >= 0 && x < 1;
  case number_range::above_one: return x > 1;
  case number_range::above_zero_below_one: return x > 0 && x < 1;
  case number_range::loss_scale: return x >= smallest_loss_scale && x <= largest_loss_scale;
  default: return true;
  }
}

/// A number as text; "nan", "inf" or "-inf" if the number is not finite. The number is rounded to nine significant
/// digits, or to as many more (at most 17) as it takes to read the same number back, as fp64 or as fp32. Zeros at the
/// end of a fraction are left out.
std::string number_text(double x);

/// Throws an `error` that names an option and its value. `owner` and `field`: as in `check_number`. `accepted`: the
/// accepted values, such as "a finite number".
[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_number(char const* owner, char const* field,
                                                                 std::string const& value,
                                                                 std::string const& accepted) {
  throw error({owner, ": ", field, " is ", value, "; give ", accepted});
}

/// Whether `seconds` can be the deadline of waits for other ranks.
constexpr bool is_deadline(double seconds) { return is_within(seconds, number_range::above_zero) && seconds <= 1e9; }

} // namespace detail

/// Throws `error` unless `value` is within `range`. `owner` and `field`, such as "fit_options" and ".plateau_factor",
/// name the option in the error.
void check_number(char const* owner, char const* field, double value, number_range range);

/// Throws `error` unless `value` is at least `minimum`. `owner` and `field` name the option in the error.
void check_count(char const* owner, char const* field, std::int64_t value, std::int64_t minimum);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/number_check.ipp"
#endif
