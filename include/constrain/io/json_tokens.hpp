#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "constrain/io/json_failure.hpp"
#include "constrain/io/utf8.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A place in a JSON text, and the tokens that may stand there; it holds nothing else. Each is read as it was written.
/// Throws `error` with the byte and the reason. (What is not inlined would be compiled into each of many readers.)
class json_tokens {
public:
  static constexpr char32_t end_of_string = 0x110000;

  /// Stands at the first token of `text`. `where` names the text in errors; both are borrowed.
  json_tokens(std::string_view text, std::string_view where) : text(text), where(where) {
    if (text.size() >= std::numeric_limits<std::uint32_t>::max()) fail("the text is 4 GiB or longer");
    at = invalid_utf8(text);
    if (at != text.size()) fail("it is not UTF-8");
    at = 0;
    space();
  }

  /// Bytes read so far.
  std::uint32_t position() const { return static_cast<std::uint32_t>(at); }
  /// Where a token that was read begins, in bytes.
  std::uint32_t position_of(std::string_view token) const {
    return static_cast<std::uint32_t>(token.data() - text.data());
  }

  /// Whether all text is read.
  bool ended() const { return at == text.size(); }
  /// The next character; NUL at the end.
  char here() const { return ended() ? '\0' : text[at]; }

  /// Skips white space.
  void space() {
    while (here() == ' ' || here() == '\n' || here() == '\r' || here() == '\t') ++at;
  }

  /// Skips the next character if it is the expected one. Returns whether it was.
  bool take(char expected) {
    if (ended() || here() != expected) return false;
    ++at;
    return true;
  }

  /// `true`, `false` or `null`.
  [[gnu::noinline]] std::string_view word_token() {
    std::string_view const expected = here() == 't' ? "true" : here() == 'f' ? "false" : "null";
    if (text.substr(at, expected.size()) != expected) fail("an unknown word");
    at += expected.size();
    return text.substr(at - expected.size(), expected.size());
  }

  /// Reads a number, as RFC 8259 spells it. Throws `error`.
  [[gnu::noinline]] std::string_view number_token() {
    auto const begin = at;
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
    return text.substr(begin, at - begin);
  }

  /// What stands between the quotes; what it stands for goes to `put` part by part.
  template <class function> std::string_view string_token(function const& put) {
    auto const begin = ++at;
    for (;;) {
      auto const plain = at;
      while (!ended() && is_plain(text[at])) ++at;
      put(text.substr(plain, at - plain));
      if (take('"')) return text.substr(begin, at - 1 - begin);
      if (ended()) fail("a string without an end");
      if (text[at] != '\\') fail("a control character in a string");
      char utf8[4];
      put(std::string_view(utf8, static_cast<std::size_t>(put_utf8(utf8, escape()) - utf8)));
    }
  }

  /// Reads a string without decoding it: what stands between the quotes. Throws `error`.
  [[gnu::noinline]] std::string_view skipped_string_token() {
    return string_token([](std::string_view) {});
  }

  /// A string token with its escapes decoded, in UTF-8.
  std::string decoded(std::string_view string) const {
    std::string result;
    auto again = *this;
    again.at = position_of(string) - 1;
    again.string_token([&](std::string_view part) { result += part; });
    return result;
  }

  /// The next character of a string that was read before, or `end_of_string`.
  char32_t character() {
    if (text[at] == '"') return end_of_string;
    return text[at] == '\\' ? escape() : get_utf8(text, at);
  }

  /// Orders two strings that were read, by the bytes after their quotes: below, at or above 0. Reads as far as they
  /// agree.
  [[gnu::noinline]] int difference(std::size_t a, std::size_t b) const {
    auto const rank = [](char c) { return c == '"' ? int{end_of_string} : static_cast<unsigned char>(c); };
    auto const *x = text.data() + a, *y = text.data() + b;
    for (; *x == *y && *x != '"' && *x != '\\'; ++y) ++x;
    if (*x != '\\' && *y != '\\') return rank(*x) - rank(*y);
    auto first = *this, second = *this;
    first.at = position_of({x, 0}), second.at = position_of({y, 0});
    for (;;) {
      auto const c = first.character(), d = second.character();
      if (c != d) return c < d ? -1 : 1;
      if (c == end_of_string) return 0;
    }
  }

  /// Throws `error`: why the text is no JSON, and at which byte.
  [[noreturn]] void fail(std::string_view reason) const { throw detail::not_json(where, at, reason); }

protected:
  std::string_view text, where;
  std::size_t at = 0;

private:
  static bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

  std::size_t digits() {
    auto const begin = at;
    while (here() >= '0' && here() <= '9') ++at;
    return at - begin;
  }

  unsigned hexadecimal() {
    unsigned code = 0;
    for (int k = 0; k < 4; ++k, ++at) {
      char const digit = here();
      bool const letter = (digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F');
      if (!letter && (digit < '0' || digit > '9')) fail("\\u needs four hexadecimal digits");
      code = code * 16 + static_cast<unsigned>(letter ? (digit & 15) + 9 : digit - '0');
    }
    return code;
  }

  /// The character of the escape whose backslash is here.
  [[gnu::noinline]] char32_t escape() {
    ++at;
    auto const kind = static_cast<unsigned char>(here());
    if (!ended()) ++at;
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
