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

/// A streaming JSON reader (RFC 8259) that holds only its position in the text. It is strict: no comments, no trailing
/// commas, only UTF-8, no lone surrogates. It does not limit the nesting depth and does not check for duplicate names:
/// the caller must do both (see `refuse_duplicates`). Throws `error`, naming the byte, for anything else than the
/// expected value.
class json_cursor : public json_tokens {
public:
  using json_tokens::json_tokens;

  /// A cursor at a position that this cursor had before.
  json_cursor from(std::size_t position) const;

  /// The kind of the value here, by its first byte. An invalid byte counts as a number; reading that number throws.
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

  /// Reads an object: calls `read(name)` at the value of each member, which `read` must consume. Returns their number.
  std::size_t object(function_ref<void(std::string_view name)> read);

  /// Reads an array: calls `read()` at each element, which `read` must consume. Returns their number.
  std::size_t array(function_ref<void()> read);

  /// Reads a string, returned as written (escapes are not decoded), or a number's digits.
  std::string_view string() { return need(json_kind::string, "a string"), skipped_string_token(); }
  std::string_view number() { return need(json_kind::number, "a number"), number_token(); }

  /// Reads an integer. Throws `error` if the number is not an integer in the range of the type.
  template <class integer> integer whole_number() {
    constexpr bool negative = std::numeric_limits<integer>::is_signed;
    auto const begin = at_;
    auto const digits = number();
    integer result{};
    auto const [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    if (code != std::errc{} || end != digits.data() + digits.size())
      from(begin).unsuitable(negative ? "a 64-bit integer" : "an integer from 0 to 2^64 - 1");
    return result;
  }

  /// Throws `error` unless only white space follows.
  void finish();

  /// Throws `error`: '<where>' has <kind of the value here> at byte n where <needed> is needed.
  [[noreturn]] void unsuitable(std::string_view needed) const;

  /// Throws `error`: '<where>' has no '<name>' in the object here.
  [[noreturn]] void missing(std::string_view name) const { throw detail::missing_json(where_, at_, name); }

private:
  void need(json_kind needed, std::string_view what) const {
    if (kind() != needed) unsuitable(what);
  }

  std::size_t items(char end, function_ref<void()> read);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/json_cursor.ipp"
#endif
