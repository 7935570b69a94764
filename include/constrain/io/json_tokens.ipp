#pragma once

#include "constrain/io/json_tokens.hpp"

#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE json_tokens::json_tokens(std::string_view text, std::string_view source)
    : text_(text), source_(source) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) fail("the text has 2^32 bytes or more");
  offset_ = find_invalid_utf8(text);
  if (offset_ != text.size()) fail("it is not UTF-8");
  offset_ = 0;
  space();
}

CONSTRAIN_INLINE std::string_view json_tokens::word_token() {
  std::string_view const expected = here() == 't' ? "true" : here() == 'f' ? "false" : "null";
  if (text_.substr(offset_, expected.size()) != expected) fail("an unknown word");
  offset_ += expected.size();
  return text_.substr(offset_ - expected.size(), expected.size());
}

CONSTRAIN_INLINE std::string_view json_tokens::number_token() {
  auto const begin = offset_;
  bool const negative = take('-');
  bool const leading_zero = here() == '0';
  auto const integral = digits();
  if (integral == 0 && negative) fail("a minus sign without digits");
  if (integral == 0) fail(ended() ? "the text ends too early" : "no value begins here");
  if (leading_zero && integral > 1) fail("a number with a leading zero");
  if (take('.') && digits() == 0) fail("a decimal point without digits after it");
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (digits() == 0) fail("an exponent without digits");
  }
  return text_.substr(begin, offset_ - begin);
}

[[gnu::cold]] CONSTRAIN_INLINE std::string json_tokens::decoded(std::string_view string) const {
  std::string result;
  auto reader = *this;
  reader.offset_ = position_of(string) - 1;
  reader.string_token([&](std::string_view part) { result += part; });
  return result;
}

CONSTRAIN_INLINE char32_t json_tokens::character() {
  if (text_[offset_] == '"') return end_of_string;
  return text_[offset_] == '\\' ? escape() : get_utf8(text_, offset_);
}

[[gnu::cold]] CONSTRAIN_INLINE int json_tokens::difference(std::size_t a, std::size_t b) const {
  auto const rank = [](char c) { return c == '"' ? int{end_of_string} : static_cast<unsigned char>(c); };
  auto const *x = text_.data() + a, *y = text_.data() + b;
  for (; *x == *y && *x != '"' && *x != '\\'; ++y) ++x;
  // Without escapes, the first different byte decides: in UTF-8, byte order is the order of the code points.
  if (*x != '\\' && *y != '\\') return rank(*x) - rank(*y);
  auto first = *this, second = *this;
  first.offset_ = position_of({x, std::size_t{0}}), second.offset_ = position_of({y, std::size_t{0}});
  for (;;) {
    auto const c = first.character(), d = second.character();
    if (c != d) return c < d ? -1 : 1;
    if (c == end_of_string) return 0;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE unsigned json_tokens::hexadecimal() {
  unsigned code = 0;
  for (int k = 0; k < 4; ++k, ++offset_) {
    char const digit = here();
    bool const is_letter = (digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F');
    if (!is_letter && (digit < '0' || digit > '9')) fail("\\u needs four hexadecimal digits");
    code = code * 16 + static_cast<unsigned>(is_letter ? (digit & 15) + 9 : digit - '0');
  }
  return code;
}

[[gnu::cold]] CONSTRAIN_INLINE char32_t json_tokens::escape() {
  ++offset_;
  auto const kind = static_cast<unsigned char>(here());
  if (!ended()) ++offset_;
  switch (kind) {
  case '"':
  case '\\':
  case '/': return kind;
  case 'b': return '\b';
  case 'f': return '\f';
  case 'n': return '\n';
  case 'r': return '\r';
  case 't': return '\t';
  case 'u': return escaped_code();
  default: fail("an unknown escape");
  }
}

[[gnu::cold]] CONSTRAIN_INLINE char32_t json_tokens::escaped_code() {
  char32_t const code = hexadecimal();
  if (code < 0xd800 || code > 0xdfff) return code;
  if (code > 0xdbff || !take('\\') || !take('u')) fail("half of a surrogate pair");
  char32_t const low = hexadecimal();
  if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
  return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

} // namespace constrain::io
