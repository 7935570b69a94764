#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/io/utf8.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// How a container is formatted: one member per line, or all on one line. Containers inside a `row` are rows too.
enum class json_layout { lines, row };

/// Writes one JSON value, formatted for reading, with members in the order of the calls:
///
///     json_writer w;
///     w.object().member("version", 1).array("loss", json_layout::row).element(0.5).end().end();
///     w.text();
///
/// Numbers read back exactly; NaN and infinities become the strings "nan", "inf" and "-inf", which `json::real` reads.
/// Throws `error` for text that is not UTF-8 and for calls that would not result in valid JSON.
class json_writer {
public:
  /// Begins an object or array: the whole value or an element of an array; with a name, a member of an object.
  json_writer& object(json_layout layout = json_layout::lines) { return element_begins(), open('{', '}', layout); }
  json_writer& array(json_layout layout = json_layout::lines) { return element_begins(), open('[', ']', layout); }
  json_writer& object(std::string_view name, json_layout layout = json_layout::lines) {
    return member_begins(name), open('{', '}', layout);
  }
  json_writer& array(std::string_view name, json_layout layout = json_layout::lines) {
    return member_begins(name), open('[', ']', layout);
  }

  /// Writes a member: nullptr, a bool, a number or text.
  template <class type> json_writer& member(std::string_view name, type const& value) {
    return member_begins(name), scalar(value);
  }

  /// Writes an array element: nullptr, a bool, a number or text.
  template <class type> json_writer& element(type const& value) { return element_begins(), scalar(value); }

  /// Ends the innermost object or array.
  json_writer& end() {
    if (levels_.empty())
      throw error({"a JSON writer was asked to end more objects and arrays than it began; remove one end()"});
    auto const ended = levels_.back();
    levels_.pop_back();
    if (!ended.empty && !ended.row) line();
    out_ += ended.close;
    return *this;
  }

  /// The finished text, without a newline at its end. Throws `error` if a container was not ended.
  std::string const& text() const {
    if (!levels_.empty() || out_.empty())
      throw error({"a JSON text is not finished; end() every object and array first"});
    return out_;
  }

private:
  struct level {
    char close;
    bool row, empty;
  };

  std::string out_;
  std::vector<level> levels_;

  json_writer& open(char begin, char close, json_layout layout) {
    bool const row = layout == json_layout::row || (!levels_.empty() && levels_.back().row);
    out_ += begin;
    levels_.push_back({close, row, true});
    return *this;
  }

  void line() {
    out_ += '\n';
    out_.append(2 * levels_.size(), ' ');
  }

  void separate() {
    auto& inside = levels_.back();
    if (!inside.empty) out_ += inside.row ? ", " : ",";
    inside.empty = false;
    if (!inside.row) line();
  }

  void element_begins() {
    if (levels_.empty() ? !out_.empty() : levels_.back().close != ']')
      throw error({"a JSON writer was given a value without a name in an object, or a second value; use member()"});
    if (!levels_.empty()) separate();
  }

  void member_begins(std::string_view name) {
    if (levels_.empty() || levels_.back().close != '}')
      throw error({"a JSON writer was given '", name, "' outside of an object; begin one first"});
    separate();
    quoted(name);
    out_ += ": ";
  }

  template <class type> json_writer& scalar(type const& value) {
    if constexpr (std::is_same_v<type, std::nullptr_t>) out_ += "null";
    else if constexpr (std::is_same_v<type, bool>) out_ += value ? "true" : "false";
    else if constexpr (std::is_convertible_v<type const&, std::string_view>) quoted(value);
    else {
      static_assert(std::is_arithmetic_v<type> && !std::is_same_v<type, char>,
                    "a JSON value is null, a bool, a number or text; convert it to one of these");
      if constexpr (std::floating_point<type>)
        if (!std::isfinite(value)) return quoted(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"), *this;
      char digits[64];
      out_ += std::string_view(
          digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr - digits));
    }
    return *this;
  }

  void quoted(std::string_view text) {
    if (invalid_utf8(text) != text.size())
      throw error({"a text that is not UTF-8 at its byte ", invalid_utf8(text),
                   " cannot be written as JSON; rename what it stands for"});
    out_ += '"';
    for (char const c : text) {
      auto const code = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') (out_ += '\\') += c;
      else if (c == '\n') out_ += "\\n";
      else if (c == '\t') out_ += "\\t";
      else if (code < 0x20) ((out_ += "\\u00") += code < 16 ? '0' : '1') += "0123456789abcdef"[code & 15];
      else out_ += c;
    }
    out_ += '"';
  }
};

} // namespace constrain::io
