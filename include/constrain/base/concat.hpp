#pragma once

#include "constrain/base/printable.hpp"

#include <concepts>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A part of a concatenated string: a borrowed string or an integer. The constructors only store two fields, so that a
/// call with a list of parts compiles to little code; `concat` joins the parts.
class text_part {
public:
  /// A string, which must outlive the part. A `char const*` must not be null.
  text_part(char const* text) : text_(text), size_or_value_(std::strlen(text)) {}
  text_part(std::string_view text) : text_(text.data()), size_or_value_(text.size()) {}
  text_part(std::string const& text) : text_(text.data()), size_or_value_(text.size()) {}
  /// An integer, written in decimal.
  template <std::integral integer>
    requires(!std::is_same_v<integer, char>) // a character would print as a number
  text_part(integer number)
      : text_(std::is_signed_v<integer> ? signed_number : unsigned_number),
        size_or_value_(static_cast<std::uint64_t>(number)) {}

  /// Appends the part's text to `text`.
  void append_to(std::string& text) const {
    bool const negative = text_ == signed_number && static_cast<std::int64_t>(size_or_value_) < 0;
    if (text_ == signed_number || text_ == unsigned_number)
      append(negative, negative ? 0 - size_or_value_ : size_or_value_, text);
    else text.append(text_, size_or_value_);
  }

private:
  // If the part is an integer, `text_` points to one of these and `size_or_value_` holds the value.
  static constexpr char signed_number[] = "a signed number", unsigned_number[] = "an unsigned number";

  [[gnu::noinline, gnu::cold]] static void append(bool negative, std::uint64_t magnitude, std::string& text) {
    char digits[21]; // the 20 digits of 2^64 - 1, and a sign
    auto* first = digits + sizeof digits;
    do *--first = static_cast<char>('0' + magnitude % 10);
    while ((magnitude /= 10) != 0);
    if (negative) *--first = '-';
    text.append(first, static_cast<std::size_t>(digits + sizeof digits - first));
  }

  char const* text_;
  std::uint64_t size_or_value_;
};

/// The parts as text, joined without separators. A chain of `+` would add code for temporary strings to every caller.
[[gnu::noinline, gnu::cold]] inline std::string concat(std::initializer_list<text_part> parts) {
  std::string text;
  for (auto const& part : parts) part.append_to(text);
  return text;
}

/// A number with its noun in the singular or plural: "1 token", "2 tokens", "2 processes". `noun`: the singular; the
/// plural ends in "es" if the singular ends in 's' or 'h', otherwise in "s".
[[gnu::noinline, gnu::cold]] inline std::string counted(text_part number, std::string_view noun) {
  auto text = concat({number, " ", noun});
  if (text.starts_with("1 ")) return text;
  return text += noun.ends_with('s') || noun.ends_with('h') ? "es" : "s";
}

} // namespace constrain
