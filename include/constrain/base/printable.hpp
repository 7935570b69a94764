#pragma once

#include "constrain/base/variant.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// UTF-8 `text` in a form that is safe to print: control characters, including U+0080 to U+009F, become '?'. In names
/// from files or users, such characters could break a line or control the terminal. `several_lines`: whether to keep
/// line feeds.
std::string printable(std::string text, bool several_lines = false);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/printable.ipp"
#endif
