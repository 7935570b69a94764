#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/base/concat.hpp"
#include "constrain/io/json_cursor.hpp"
#include "constrain/io/utf8.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

namespace detail {

/// A string token, decoded for an error message and truncated after about 80 bytes.
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

/// Throws the error for a duplicate name; `name`: the position after its opening quote.
[[noreturn]] inline void refuse_second(json_cursor const& text, std::uint32_t name) {
  auto const written = text.from(name - 1).string();
  text.from(name).fail("the name '" + shown(text, written) + "' stands twice in one object");
}

/// std::sort of positions in a text, type-erased so that it is instantiated once.
[[gnu::noinline]] inline void sort_places(std::vector<std::uint32_t>& places,
                                          function_ref<bool(std::uint32_t, std::uint32_t)> before) {
  std::sort(places.begin(), places.end(), before);
}

/// Throws `error` if two names are equal after decoding escapes. `names`: their positions after the opening quote; they
/// are sorted in place. Comparisons read the text again, so that no memory is needed for the decoded names.
inline void refuse_duplicates(json_cursor const& text, std::vector<std::uint32_t>& names) {
  sort_places(names, [&](std::uint32_t a, std::uint32_t b) { return text.difference(a, b) < 0; });
  for (std::size_t i = 1; i < names.size(); ++i)
    if (text.difference(names[i - 1], names[i]) == 0) refuse_second(text, std::max(names[i - 1], names[i]));
}

} // namespace detail

} // namespace constrain::io
