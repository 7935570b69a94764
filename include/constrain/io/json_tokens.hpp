#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "constrain/io/json_failure.hpp"
#include "constrain/io/utf8.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A position in a JSON text and functions that read the token there (RFC 8259). Throws `error` with the byte and the
/// reason. Larger functions are not inlined, to save compile time in the readers built on them.
class json_tokens {
public:
  static constexpr char32_t end_of_string = 0x110000;

  /// Starts at the first token of `text`. `where` names the text in errors; both must outlive this. Throws `error` if
  /// the text is not UTF-8 or has 4 GiB or more.
  json_tokens(std::string_view text, std::string_view where) : text_(text), where_(where) {
    if (text.size() >= std::numeric_limits<std::uint32_t>::max()) fail("the text is 4 GiB or longer");
    at_ = invalid_utf8(text);
    if (at_ != text.size()) fail("it is not UTF-8");
    at_ = 0;
    space();
  }

  /// Byte offset in the text: of this position, or of a token that was read.
  std::uint32_t position() const { return static_cast<std::uint32_t>(at_); }
  std::uint32_t position_of(std::string_view token) const {
    return static_cast<std::uint32_t>(token.data() - text_.data());
  }

  /// Whether this is the end of the text.
  bool ended() const { return at_ == text_.size(); }
  /// The byte here; NUL at the end.
  char here() const { return ended() ? '\0' : text_[at_]; }

  /// Skips white space.
  void space() {
    while (here() == ' ' || here() == '\n' || here() == '\r' || here() == '\t') ++at_;
  }

  /// Skips `expected` if it is the byte here; returns whether it was.
  bool take(char expected) {
    if (ended() || here() != expected) return false;
    ++at_;
    return true;
  }

  /// Reads `true`, `false` or `null`.
  [[gnu::noinline]] std::string_view word_token() {
    std::string_view const expected = here() == 't' ? "true" : here() == 'f' ? "false" : "null";
    if (text_.substr(at_, expected.size()) != expected) fail("an unknown word");
    at_ += expected.size();
    return text_.substr(at_ - expected.size(), expected.size());
  }

  /// Reads a number.
  [[gnu::noinline]] std::string_view number_token() {
    auto const begin = at_;
    bool const negative = take('-');
    bool const zero = here() == '0';
    auto const whole = digits();
    if (whole == 0 && negative) fail("a minus sign without digits");
    if (whole == 0) fail(ended() ? "the text ends too early" : "no value begins here");
    if (zero && whole > 1) fail("a number with a leading zero");
    if (take('.') && digits() == 0) fail("a decimal point without digits after it");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (digits() == 0) fail("an exponent without digits");
    }
    return text_.substr(begin, at_ - begin);
  }

  /// Reads a string. Returns the text between its quotes as written, and passes the decoded string to `put` in parts.
  template <class function> std::string_view string_token(function const& put) {
    auto const begin = ++at_;
    for (;;) {
      auto const plain = at_;
      while (!ended() && is_plain(text_[at_])) ++at_;
      put(text_.substr(plain, at_ - plain));
      if (take('"')) return text_.substr(begin, at_ - 1 - begin);
      if (ended()) fail("a string without an end");
      if (text_[at_] != '\\') fail("a control character in a string");
      char utf8[4];
      put(std::string_view(utf8, static_cast<std::size_t>(put_utf8(utf8, escape()) - utf8)));
    }
  }

  /// Reads a string without decoding it.
  [[gnu::noinline]] std::string_view skipped_string_token() {
    return string_token([](std::string_view) {});
  }

  /// Decodes a string that was read as written.
  std::string decoded(std::string_view string) const {
    std::string result;
    auto again = *this;
    again.at_ = position_of(string) - 1;
    again.string_token([&](std::string_view part) { result += part; });
    return result;
  }

  /// The next code point of a string that was read before; `end_of_string` at its end.
  char32_t character() {
    if (text_[at_] == '"') return end_of_string;
    return text_[at_] == '\\' ? escape() : get_utf8(text_, at_);
  }

  /// Compares two strings that were read, given by their positions after the opening quote: negative, 0 or positive.
  [[gnu::noinline]] int difference(std::size_t a, std::size_t b) const {
    auto const rank = [](char c) { return c == '"' ? int{end_of_string} : static_cast<unsigned char>(c); };
    auto const *x = text_.data() + a, *y = text_.data() + b;
    for (; *x == *y && *x != '"' && *x != '\\'; ++y) ++x;
    if (*x != '\\' && *y != '\\') return rank(*x) - rank(*y);
    auto first = *this, second = *this;
    first.at_ = position_of({x, 0}), second.at_ = position_of({y, 0});
    for (;;) {
      auto const c = first.character(), d = second.character();
      if (c != d) return c < d ? -1 : 1;
      if (c == end_of_string) return 0;
    }
  }

  /// Throws the `error` for invalid JSON here.
  [[noreturn]] void fail(std::string_view reason) const { throw detail::not_json(where_, at_, reason); }

protected:
  std::string_view text_, where_;
  std::size_t at_ = 0;

private:
  static bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

  std::size_t digits() {
    auto const begin = at_;
    while (here() >= '0' && here() <= '9') ++at_;
    return at_ - begin;
  }

  unsigned hexadecimal() {
    unsigned code = 0;
    for (int k = 0; k < 4; ++k, ++at_) {
      char const digit = here();
      bool const letter = (digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F');
      if (!letter && (digit < '0' || digit > '9')) fail("\\u needs four hexadecimal digits");
      code = code * 16 + static_cast<unsigned>(letter ? (digit & 15) + 9 : digit - '0');
    }
    return code;
  }

  /// Reads an escape sequence, at its backslash.
  [[gnu::noinline]] char32_t escape() {
    ++at_;
    auto const kind = static_cast<unsigned char>(here());
    if (!ended()) ++at_;
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

  char32_t escaped_code() {
    char32_t const code = hexadecimal();
    if (code < 0xd800 || code > 0xdfff) return code;
    if (code > 0xdbff || !take('\\') || !take('u')) fail("half of a surrogate pair");
    char32_t const low = hexadecimal();
    if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
};

} // namespace constrain::io
