#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Checks the options `.directory`, `.keep_last`, `.best` and `.records` of `fit`; an empty path is not set. Throws
/// `error` if one of the directories is, or is inside, another directory that a save replaces or that `.keep_last`
/// removes. Resolves symbolic links and relative paths first.
void check_output_directories(std::string const& directory, std::int64_t keep_last, std::string const& best,
                              std::string const& records);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/output_directories.ipp"
#endif
