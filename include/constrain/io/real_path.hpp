#pragma once

#include "constrain/io/descriptor.hpp"
#include "constrain/io/directory_handle.hpp"

#include <cerrno>
#include <optional>
#include <string>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The absolute path without symbolic links, '.' or '..'; an empty path is the working directory. Unlike with
/// realpath(3), the last components of the path need not exist: from the first component that cannot be resolved (such
/// as a missing directory or a broken link) onward, links are not followed, and each '..' removes the component before
/// it. Throws `error` if the path contains a NUL byte.
[[gnu::cold]] std::string real_path(std::string path);

namespace detail {

/// The status of a path, following symbolic links; nullopt if the path does not exist or its status cannot be read.
std::optional<struct stat> status_of(std::string const& path);

} // namespace detail

/// The first component of `path` below `directory`, after resolving both: "a" for "d/a/b" in "d". Empty if `path` and
/// `directory` are the same directory; nullopt if `path` is not in `directory`. Throws as `real_path` does.
[[gnu::cold]] std::optional<std::string> name_below(std::string const& path, std::string const& directory);

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/real_path.ipp"
#endif
