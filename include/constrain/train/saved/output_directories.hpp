#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Checks that no save of `fit` replaces or removes another output. The arguments are the options of these names; an
/// empty path means that the option is not set. Throws `error` if `best` or `records` is, or is inside, a directory
/// that a save to `directory` replaces or that `keep_last` removes, or if `directory` or `records` is, or is inside,
/// `best`. Resolves symbolic links and relative paths first.
void check_output_directories(std::string const& directory, std::int64_t keep_last, std::string const& best,
                              std::string const& records);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/output_directories.ipp"
#endif
