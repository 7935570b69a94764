#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/variant.hpp"

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// How an object or array is formatted: one member or element per line, or all on one line. Objects and arrays inside a
/// `row` are also rows.
enum class json_layout { lines, row };

/// How a floating-point number that is whole is written: as 1, or as 1.0 for a reader that distinguishes integers from
/// reals, as Python does.
enum class json_reals { shortest, with_point };

/// Writes one JSON value, formatted for human readers, with members in the order of the calls:
///
///     json_writer w;
///     w.object().member("version", 1).array("loss", json_layout::row).element(0.5).end().end();
///     w.text();
///
/// A number round-trips exactly if it is read as the type that was written (a float with `json::real<float>`). NaN and
/// infinities become the strings "nan", "inf" and "-inf", which `json::real` reads. Throws `error` for text that is not
/// UTF-8 and for calls that would not result in valid JSON. The caller must give the members of an object different
/// names.
class json_writer {
public:
  json_writer() = default;
  /// A writer that writes floating-point numbers as `reals` says.
  explicit json_writer(json_reals reals) : reals_(reals) {}

  /// Begins an object or array that is the outermost value or an element of an array. All calls that write return this
  /// writer.
  json_writer& object(json_layout layout = json_layout::lines) { return begin_element(), open('{', '}', layout); }
  json_writer& array(json_layout layout = json_layout::lines) { return begin_element(), open('[', ']', layout); }
  /// Begins an object that is a member of an object.
  json_writer& object(std::string_view name, json_layout layout = json_layout::lines) {
    return begin_member(name), open('{', '}', layout);
  }
  /// Begins an array that is a member of an object.
  json_writer& array(std::string_view name, json_layout layout = json_layout::lines) {
    return begin_member(name), open('[', ']', layout);
  }

  /// Writes a member of an object. `value`: nullptr (written as null), a bool, a number (but no char or long double) or
  /// a string in UTF-8.
  template <class type> json_writer& member(std::string_view name, type const& value) {
    return begin_member(name), scalar(value);
  }

  /// Writes an element of an array, or the outermost value; `value` as in `member`.
  template <class type> json_writer& element(type const& value) { return begin_element(), scalar(value); }

  /// Ends the innermost object or array.
  json_writer& end();

  /// The finished text, without a newline at the end. Throws `error` if an object or array was not ended, or if nothing
  /// was written.
  std::string const& text() const;

private:
  struct level {
    char close;      // the closing bracket
    bool row, empty; // whether the object or array is on one line; whether it has no member or element yet
  };

  std::string out_;
  std::vector<level> levels_;
  json_reals reals_ = json_reals::shortest;

  /// Writes the opening bracket `begin`; `end` will write `close`.
  json_writer& open(char begin, char close, json_layout layout);

  /// Begins a new line, indented by two spaces per open object or array.
  void begin_line();

  /// Writes the separator before a member or element: a comma, except before the first, and a new line, except in a
  /// row.
  void separate();

  /// Writes the separator before a value without a name. Throws `error` if no such value may be written now.
  void begin_element();

  /// Writes the separator, the name and the colon before a member's value. Throws `error` if no member may be written
  /// now.
  void begin_member(std::string_view name);

  /// Writes a value without a separator.
  template <class type> json_writer& scalar(type const& value) {
    if constexpr (std::is_same_v<type, std::nullptr_t>) out_ += "null";
    else if constexpr (std::is_same_v<type, bool>) out_ += value ? "true" : "false";
    else if constexpr (std::is_convertible_v<type const&, std::string_view>) write_quoted(value);
    else {
      static_assert(std::is_arithmetic_v<type> && !std::is_same_v<type, char> && !std::is_same_v<type, long double>,
                    "a JSON value must be null, a bool, an integer, float, double or text; convert it to one of these");
      if constexpr (std::floating_point<type>)
        if (!constrain::detail::is_finite(value)) return write_quoted(constrain::detail::number_text(value)), *this;
      if constexpr (std::integral<type>) return out_ += concat({value}), *this;
      char digits[64];
      std::string_view const number(
          static_cast<char const*>(digits),
          static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr - digits));
      out_ += number;
      if (reals_ == json_reals::with_point && number.find_first_of(".e") == number.npos) out_ += ".0";
    }
    return *this;
  }

  /// Writes a string, with quotes and escapes. Throws `error` if it is not UTF-8.
  void write_quoted(std::string_view text);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/json_writer.ipp"
#endif
