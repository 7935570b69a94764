#pragma once

#include "constrain/base/variant.hpp"

#include <cstdarg>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Like std::vprintf, but returns the text; empty if the conversion fails. `values` must not be used afterwards.
[[gnu::cold, gnu::format(printf, 1, 0)]] std::string formatted_list(char const* format, std::va_list values);

/// Like std::printf, but returns the text; empty if the conversion fails. The function is not a template, because one
/// instantiation per list of argument types would slow compilation.
[[gnu::cold, gnu::format(printf, 1, 2)]] std::string formatted(char const* format, ...);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/formatted.ipp"
#endif
