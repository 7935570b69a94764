#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error` if one of the directories that `fit` writes to lies inside a directory that a save replaces or that
/// `.keep_last` removes: the files of the inner directory would be deleted. Symbolic links and relative paths are
/// resolved first.
void check_places(std::string const& directory, std::int64_t keep_last, std::string const& best,
                  std::string const& records);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/places.ipp"
#endif
