#pragma once

#include "constrain/io/json_cursor.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

CONSTRAIN_INLINE json_cursor json_cursor::from(std::size_t position) const {
  auto copy = *this;
  copy.offset_ = position;
  return copy;
}

CONSTRAIN_INLINE std::size_t json_cursor::object(function_ref<void(std::string_view name)> read) {
  require(json_kind::object, "an object");
  return items('}', [&] {
    if (here() != '"') fail("a member needs a name in quotes");
    auto const name = skipped_string_token();
    space();
    if (!take(':')) fail("a ':' is missing");
    space();
    read(name);
  });
}

CONSTRAIN_INLINE std::size_t json_cursor::array(function_ref<void()> read) {
  require(json_kind::array, "an array");
  return items(']', read);
}

CONSTRAIN_INLINE void json_cursor::finish() {
  space();
  if (!ended()) fail("there is more text after the end of the value");
}

CONSTRAIN_INLINE void json_cursor::refuse_value(std::string_view needed) const {
  auto value = *this;
  auto const digits = kind() == json_kind::number ? value.number() : std::string_view();
  if (kind() == json_kind::boolean || kind() == json_kind::null) value.word_token();
  throw detail::unsuitable_json(source_, offset_, kind(), digits, needed);
}

CONSTRAIN_INLINE std::size_t json_cursor::items(char end, function_ref<void()> read) {
  ++offset_;
  space();
  std::size_t count = 0;
  for (; !take(end); ++count) {
    if (count > 0) {
      if (!take(',')) fail(end == '}' ? "a ',' or '}' is missing" : "a ',' or ']' is missing");
      space();
    }
    read();
    space();
  }
  return count;
}

} // namespace constrain::io
