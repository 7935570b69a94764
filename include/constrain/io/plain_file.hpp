#pragma once

#include "constrain/io/descriptor.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Opens or creates a file to be changed in place. Throws `error`, its sentence beginning with `what` ("the log"), for
/// a symbolic link, a pipe, a device, or a file with other hard links: writing would change something that the path
/// does not name.
[[gnu::cold]] descriptor open_plain_file(std::string const& path, std::string const& what, int flags);

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/plain_file.ipp"
#endif
