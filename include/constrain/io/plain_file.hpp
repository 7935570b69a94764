#pragma once

#include "constrain/io/descriptor.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Opens a file to write in place, or creates it (mode 0666 less the umask). `flags`: the access mode and further flags
/// of open(2), such as O_APPEND, but not O_TRUNC, which would empty the file before it is checked. Throws `error`, with
/// a message that begins with `description` (such as "the log"), if the file cannot be opened, is not a regular file,
/// is a symbolic link or has other hard links. (Through a link, a write would change a file that has another path.)
/// Also throws the error of `system_path` for a path with a NUL byte.
[[gnu::cold]] descriptor open_plain_file(std::string const& path, std::string const& description, int flags);

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/plain_file.ipp"
#endif
