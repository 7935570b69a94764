#pragma once

#include "constrain/io/json_names.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/io/utf8.hpp"

#include <algorithm>
#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::string decoded_text(json_cursor const& text, std::string_view string) {
  constexpr std::size_t maximum_bytes = 80;
  std::string result;
  auto cursor = text.from(text.position_of(string));
  for (char32_t c; (c = cursor.character()) != json_cursor::end_of_string;) {
    if (result.size() >= maximum_bytes) return concat({result, "..."});
    char utf8[4];
    result.append(utf8, put_utf8(utf8, c));
  }
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE void refuse_duplicate(json_cursor const& text, std::uint32_t position) {
  auto const token = text.from(position - 1).string();
  text.from(position).fail(concat({"the name '", decoded_text(text, token), "' occurs twice in one object"}));
}

[[gnu::cold]] CONSTRAIN_INLINE void refuse_duplicates(json_cursor const& text, std::vector<std::uint32_t>& names) {
  constrain::detail::heap_sort(names, [&](std::uint32_t a, std::uint32_t b) { return text.difference(a, b) < 0; });
  for (std::size_t i = 1; i < names.size(); ++i)
    if (text.difference(names[i - 1], names[i]) == 0) refuse_duplicate(text, std::max(names[i - 1], names[i]));
}

} // namespace constrain::io::detail
