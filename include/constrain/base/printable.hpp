#pragma once

#include "constrain/base/variant.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// UTF-8 `text` in a form that is safe to print: each control character, including U+0080 to U+009F, becomes one '?'.
/// Other bytes do not change, even if they are not valid UTF-8. In names from files or users, control characters could
/// break a line or control the terminal. `several_lines`: whether to keep line feeds.
std::string printable(std::string text, bool several_lines = false);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/printable.ipp"
#endif
