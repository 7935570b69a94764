#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "constrain/program/error.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A part of a sentence: text, which is borrowed, or a whole number.
class piece {
 public:
  piece(char const* text) : text(text) {}
  piece(std::string_view text) : text(text) {}
  piece(std::string const& text) : text(text) {}
  template <std::integral integer>
  piece(integer number) : size(std::to_chars(digits, digits + sizeof digits, number).ptr - digits) {}

  std::string_view view() const { return size > 0 ? std::string_view(digits, static_cast<std::size_t>(size)) : text; }

 private:
  std::string_view text;
  std::ptrdiff_t size = 0;
  char digits[24];
};

/// The `error` whose sentence these pieces make. Out of line: sums of strings at every `throw` would take the compiler
/// several times as long.
[[gnu::noinline, gnu::cold]] inline error failure(std::initializer_list<piece> pieces) {
  std::string sentence;
  for (auto const& p : pieces) sentence += p.view();
  return error(sentence);
}

} // namespace constrain::io
