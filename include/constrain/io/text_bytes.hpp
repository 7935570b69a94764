#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The bytes of a string, as a view of it. This function compiles faster than std::as_bytes(std::span(text)), which
/// checks the range concepts.
inline std::span<std::byte const> text_bytes(std::string_view text) {
  return {reinterpret_cast<std::byte const*>(text.data()), text.size()};
}

} // namespace constrain::io
