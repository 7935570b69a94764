#pragma once

#include "constrain/base/units.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A finite number as text with `decimals` digits, from 0 to 17, after a decimal point, whatever the locale. With 0
/// digits, there is no point.
[[gnu::cold]] std::string fixed_text(double x, int decimals);

/// A number of bytes as text with one decimal, in MiB ("1.5 MiB") or, below 1023.95 KiB, in KiB ("1.5 KiB").
[[gnu::cold]] std::string bytes_text(bytes b);

/// An integer as text with thousands separators: "4,870,144".
[[gnu::cold]] std::string grouped(std::int64_t n);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/number_text.ipp"
#endif
