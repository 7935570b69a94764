#pragma once

#include "constrain/base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The kinds of JSON values (RFC 8259).
enum class json_kind : std::uint8_t { null, boolean, number, string, array, object };

namespace detail {

/// The error for text that cannot be read as JSON at byte `byte`, counted from 0. `source`: the path or name of the
/// text, or path:line if `byte` counts from the beginning of the line. `reason`: what is wrong there.
inline error not_json(std::string_view source, std::size_t byte, std::string_view reason) {
  return error(
      {"'", source, "' cannot be read as JSON at byte ", byte, ": ", reason, "; correct it or write it again"});
}

/// The error for an unsuitable value at byte `byte`. `needed`: what the text must have there, such as "an array".
/// `digits`: the value as written, if it is a number; the error shows at most 40 characters.
inline error unsuitable_json(std::string_view source, std::size_t byte, json_kind kind, std::string_view digits,
                             std::string_view needed) {
  constexpr std::string_view kinds[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
  auto const actual = kind == json_kind::number ? digits.substr(0, 40) : kinds[static_cast<int>(kind)];
  return error({"'", source, "' has ", actual, " at byte ", byte, " where ", needed,
                " is needed; correct it or write it again"});
}

/// The error for a missing member `name` of the object at byte `object`.
inline error missing_json(std::string_view source, std::size_t object, std::string_view name) {
  return error(
      {"'", source, "' has no '", name, "' in the object at byte ", object, "; add it or write the text again"});
}

} // namespace detail

} // namespace constrain::io
