#pragma once

#include "constrain/io/json_cursor.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

namespace detail {

/// The string token `string` of `text`, decoded, and truncated after about 80 bytes (then "..." follows), for errors
/// and for comparisons with short names.
std::string decoded_text(json_cursor const& text, std::string_view string);

/// Throws `error` for a duplicate name. `position`: the position after the opening quote of the second occurrence.
[[noreturn]] void refuse_duplicate(json_cursor const& text, std::uint32_t position);

/// Throws `error` if two names are equal after their escapes are decoded. `names`: the positions after the names'
/// opening quotes; sorted in place. Comparisons read the text again, so that no memory is needed for the decoded names.
void refuse_duplicates(json_cursor const& text, std::vector<std::uint32_t>& names);

} // namespace detail

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/json_names.ipp"
#endif
