#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/io/json_failure.hpp"
#include "constrain/io/json_tokens.hpp"

#include <charconv>
#include <cstddef>
#include <limits>
#include <string_view>
#include <system_error>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A streaming JSON reader (RFC 8259): a view of a text and a position in the text. The reader is strict: no comments,
/// no trailing commas, only UTF-8, and no lone surrogates. The caller must limit the nesting depth and check for
/// duplicate names (`detail::refuse_duplicates`). A function that reads a value throws `error`, with the byte offset,
/// if the text at the position is not a value of the expected kind.
class json_cursor : public json_tokens {
public:
  using json_tokens::json_tokens;

  /// A cursor in the same text at `position`, in bytes from the beginning of the text. `position` must be at most the
  /// size of the text.
  json_cursor from(std::size_t position) const;

  /// The kind of the value at the position, determined by its first byte. A byte that begins no value counts as a
  /// number; reading that number throws.
  json_kind kind() const {
    switch (here()) {
    case '{': return json_kind::object;
    case '[': return json_kind::array;
    case '"': return json_kind::string;
    case 't':
    case 'f': return json_kind::boolean;
    case 'n': return json_kind::null;
    default: return json_kind::number;
    }
  }

  /// Reads an object: for each member, calls `read(name)` with the position at the value; `read` must read the value.
  /// The escapes in `name` are not decoded. Returns the number of members.
  std::size_t object(function_ref<void(std::string_view name)> read);

  /// Reads an array: calls `read()` with the position at each element; `read` must read the element. Returns the number
  /// of elements.
  std::size_t array(function_ref<void()> read);

  /// Reads a string or a number. Returns it as written, except that the quotes of a string are left out.
  std::string_view string() { return require(json_kind::string, "a string"), skipped_string_token(); }
  std::string_view number() { return require(json_kind::number, "a number"), number_token(); }

  /// Reads an integer. Throws `error` unless the number is written without a decimal point or exponent and is in the
  /// range of the type.
  template <class integer> integer whole_number() {
    constexpr bool is_signed = std::numeric_limits<integer>::is_signed;
    auto const begin = offset_;
    auto const digits = number();
    integer result{};
    auto const [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    if (code != std::errc{} || end != digits.data() + digits.size())
      from(begin).refuse_value(is_signed ? "a 64-bit integer" : "an integer from 0 to 2^64 - 1");
    return result;
  }

  /// Skips white space. Throws `error` unless the end of the text follows.
  void finish();

  /// Throws `error`: "'<source>' has <the number, or the kind of value> at byte <position> where <needed> is needed;
  /// ...". If no value begins at the position, or the number or word there is invalid, throws the error of reading it
  /// instead.
  [[noreturn]] void refuse_value(std::string_view needed) const;

  /// Throws `error`: "'<source>' has no '<name>' in the object at byte <position>; ...".
  [[noreturn]] void missing(std::string_view name) const { throw detail::missing_json(source_, offset_, name); }

private:
  /// Throws `error` unless the value at the position is of the kind `needed`; `needed_text`: that kind in the error.
  void require(json_kind needed, std::string_view needed_text) const {
    if (kind() != needed) refuse_value(needed_text);
  }

  /// Reads an opening bracket, items separated by commas, and the closing bracket `end`. Returns the number of items.
  std::size_t items(char end, function_ref<void()> read);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/json_cursor.ipp"
#endif
