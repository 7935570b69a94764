#pragma once

#include "constrain/io/plain_file.hpp"

#include "constrain/base/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE descriptor open_plain_file(std::string const& path, std::string const& what, int flags) {
  auto const refuse = [&](std::string const& why, char const* first) {
    return error({what, " '", path, "' cannot be written (", why, "); ", first, " or choose another directory"});
  };
  constexpr char const* remove = "remove it";
  // Without O_NONBLOCK, opening a pipe only for writing would wait for a reader.
  descriptor file(::open(system_path(path), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  if (!file && (errno == ELOOP || errno == EMLINK)) throw refuse("it is a link", remove);
  if (!file && (errno == ENXIO || errno == EISDIR)) throw refuse("it is not a regular file", remove);
  if (!file) throw refuse(reason(), remedy());
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) throw refuse(reason(), remedy());
  if (!S_ISREG(found.st_mode)) throw refuse("it is not a regular file", remove);
  if (found.st_nlink > 1) throw refuse("it has another hard link", remove);
  return file;
}

} // namespace constrain::io
