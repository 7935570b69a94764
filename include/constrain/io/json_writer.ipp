#pragma once

#include "constrain/io/json_writer.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/utf8.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// The escape for a quotation mark, a backslash or a control character.
[[gnu::cold]] CONSTRAIN_INLINE std::string escape(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '"' || c == '\\') return {'\\', c};
  return {'\\', 'u', '0', '0', c < 16 ? '0' : '1', "0123456789abcdef"[c & 15]};
}

} // namespace constrain::io::detail

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE json_writer& json_writer::end() {
  if (levels_.empty()) throw error({"a JSON writer ended more objects and arrays than it began; remove one end()"});
  auto const closed_level = levels_.back();
  levels_.pop_back();
  if (!closed_level.empty && !closed_level.row) begin_line();
  out_ += closed_level.close;
  return *this;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string const& json_writer::text() const {
  if (out_.empty()) throw error({"a JSON text is empty; write a value first"});
  if (!levels_.empty()) throw error({"a JSON text is not finished; end() every object and array first"});
  return out_;
}

[[gnu::cold]] CONSTRAIN_INLINE json_writer& json_writer::open(char begin, char close, json_layout layout) {
  bool const row = layout == json_layout::row || (!levels_.empty() && levels_.back().row);
  out_ += begin;
  levels_.push_back({close, row, true});
  return *this;
}

[[gnu::cold]] CONSTRAIN_INLINE void json_writer::begin_line() {
  out_ += '\n';
  out_.append(2 * levels_.size(), ' ');
}

[[gnu::cold]] CONSTRAIN_INLINE void json_writer::separate() {
  auto& innermost = levels_.back();
  if (!innermost.empty) out_ += innermost.row ? ", " : ",";
  innermost.empty = false;
  if (!innermost.row) begin_line();
}

[[gnu::cold]] CONSTRAIN_INLINE void json_writer::begin_element() {
  if (levels_.empty() && !out_.empty())
    throw error("a JSON writer was given a second top-level value; write all values in one object or array");
  if (!levels_.empty() && levels_.back().close != ']')
    throw error("a JSON writer was given a value without a name in an object; give the value a name");
  if (!levels_.empty()) separate();
}

[[gnu::cold]] CONSTRAIN_INLINE void json_writer::begin_member(std::string_view name) {
  if (levels_.empty() || levels_.back().close != '}')
    throw error({"a JSON writer was given the member '", name, "' outside of an object; begin an object first"});
  separate();
  write_quoted(name);
  out_ += ": ";
}

[[gnu::cold]] CONSTRAIN_INLINE void json_writer::write_quoted(std::string_view text) {
  if (find_invalid_utf8(text) != text.size())
    throw error({"a string that is not UTF-8 at byte ", find_invalid_utf8(text),
                 " cannot be written as JSON; convert it to UTF-8"});
  out_ += '"';
  for (char const c : text) {
    auto const code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || code < 0x20) out_ += detail::escape(c);
    else out_ += c;
  }
  out_ += '"';
}

} // namespace constrain::io
