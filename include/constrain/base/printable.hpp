#pragma once

#include "constrain/base/variant.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Text that is safe to print: control characters become '?', since names from files or users could end the line or
/// command a terminal with them. This includes U+0080 to U+009F. `several_lines` keeps line ends.
std::string printable(std::string text, bool several_lines = false);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/printable.ipp"
#endif
