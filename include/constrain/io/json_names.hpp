#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/io/json_cursor.hpp"
#include "constrain/io/utf8.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

namespace detail {

/// A string that was read, for a person: cut off where it is long.
inline std::string shown(json_cursor const& text, std::string_view string) {
  constexpr std::size_t most = 80;
  std::string result;
  auto rest = text.from(text.position_of(string));
  for (char32_t c; (c = rest.character()) != json_cursor::end_of_string;) {
    if (result.size() >= most) return concat({result, "..."});
    char utf8[4];
    result.append(utf8, put_utf8(utf8, c));
  }
  return result;
}

[[noreturn]] inline void refuse_second(json_cursor const& text, std::uint32_t name) {
  auto const written = text.from(name - 1).string();
  text.from(name).fail("the name '" + shown(text, written) + "' stands twice in one object");
}

/// Throws where two of the names are the same, escaped or not. They are given by the bytes after their quotes, get into
/// another order, and are read again at every comparison, as far as they agree: nothing more is held.
inline void refuse_duplicates(json_cursor const& text, std::vector<std::uint32_t>& names) {
  std::sort(names.begin(), names.end(), [&](auto a, auto b) { return text.difference(a, b) < 0; });
  auto const same = [&](auto a, auto b) { return text.difference(a, b) == 0; };
  auto const twice = std::adjacent_find(names.begin(), names.end(), same);
  if (twice != names.end()) refuse_second(text, std::max(*twice, *(twice + 1)));
}

} // namespace detail

} // namespace constrain::io
