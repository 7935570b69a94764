#pragma once

#include "constrain/base/variant.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// `text` in a form that is safe to print: control characters, U+0080 to U+009F among them, become '?'. Names from
/// files or users may contain them, and they could end the line or control a terminal. `several_lines` keeps line ends.
std::string printable(std::string text, bool several_lines = false);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/printable.ipp"
#endif
