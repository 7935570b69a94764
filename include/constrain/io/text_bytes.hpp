#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The bytes of a text. (`std::span` of a string asks the compiler whether every kind of string is a range.)
inline std::span<std::byte const> text_bytes(std::string_view text) {
  return {reinterpret_cast<std::byte const*>(text.data()), text.size()};
}

} // namespace constrain::io
