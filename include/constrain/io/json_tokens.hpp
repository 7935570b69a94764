#pragma once

#include "constrain/io/json_failure.hpp"
#include "constrain/io/utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A position in a JSON text (RFC 8259), and functions that read the token at the position and move past it. The
/// functions throw `error`, with the byte offset and the reason, if the text there is not the expected token.
class json_tokens {
public:
  /// The result of `character` at the end of a string: greater than every code point.
  static constexpr char32_t end_of_string = 0x110000;

  /// Starts at the first token of `text`. `source` names the text in errors. Both strings must outlive this object.
  /// Throws `error` if the text is not UTF-8 or has 2^32 bytes or more.
  json_tokens(std::string_view text, std::string_view source);

  /// The position's byte offset in the text.
  std::uint32_t position() const { return static_cast<std::uint32_t>(offset_); }
  /// The byte offset of `token`, a view that a function of this object, or of a copy of this object, has returned.
  std::uint32_t position_of(std::string_view token) const {
    return static_cast<std::uint32_t>(token.data() - text_.data());
  }

  /// Whether the position is the end of the text.
  bool ended() const { return offset_ == text_.size(); }
  /// The byte at the position; NUL at the end.
  char here() const { return ended() ? '\0' : text_[offset_]; }

  /// Skips white space.
  void space() {
    while (here() == ' ' || here() == '\n' || here() == '\r' || here() == '\t') ++offset_;
  }

  /// Skips the byte at the position if it equals `expected`. Returns whether a byte was skipped.
  bool take(char expected) {
    if (ended() || here() != expected) return false;
    ++offset_;
    return true;
  }

  /// Reads `true`, `false` or `null`, and returns the word.
  std::string_view word_token();

  /// Reads a number, and returns it as written.
  std::string_view number_token();

  /// Reads the string whose opening quote is at the position; the caller has checked the quote. Returns the text
  /// between the quotes as written, and calls `put(part)` for consecutive parts of the decoded string. `part` is valid
  /// during the call and may be empty.
  template <class function> std::string_view string_token(function const& put) {
    auto const begin = ++offset_;
    for (;;) {
      auto const plain_begin = offset_;
      while (!ended() && is_plain(text_[offset_])) ++offset_;
      put(text_.substr(plain_begin, offset_ - plain_begin));
      if (take('"')) return text_.substr(begin, offset_ - 1 - begin);
      if (ended()) fail("an unterminated string");
      if (text_[offset_] != '\\') fail("a control character in a string");
      char utf8[4];
      auto const bytes = static_cast<std::size_t>(put_utf8(utf8, escape()) - utf8);
      put(std::string_view(static_cast<char const*>(utf8), bytes));
    }
  }

  /// Like `string_token`, for a caller that does not need the decoded string. Not inlined, to save compile time.
  [[gnu::noinline]] std::string_view skipped_string_token() {
    return string_token([](std::string_view) {});
  }

  /// The decoded content of a string token that was read from this text before.
  std::string decoded(std::string_view string) const;

  /// Reads the next code point. The position must be inside a string that was read before. At the closing quote,
  /// returns `end_of_string` and does not move.
  char32_t character();

  /// Compares the decoded content of two strings that were read before. `a`, `b`: the byte offsets after their opening
  /// quotes. Returns a negative number, 0 or a positive number, as std::strcmp does, but a proper prefix of a string
  /// compares greater than the string.
  int difference(std::size_t a, std::size_t b) const;

  /// Throws the error of `detail::not_json` for the position and `reason`.
  [[noreturn]] void fail(std::string_view reason) const { throw detail::not_json(source_, offset_, reason); }

protected:
  std::string_view text_, source_;
  std::size_t offset_ = 0;

private:
  static bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

  /// Skips decimal digits. Returns their number.
  std::size_t digits() {
    auto const begin = offset_;
    while (here() >= '0' && here() <= '9') ++offset_;
    return offset_ - begin;
  }

  /// Reads four hexadecimal digits. Returns their value.
  unsigned hexadecimal();

  /// Reads the escape sequence whose backslash is at the position. Returns its code point.
  char32_t escape();

  /// Reads a Unicode escape after its 'u', or two escapes that form a surrogate pair. Returns the code point.
  char32_t escaped_code();
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/json_tokens.ipp"
#endif
