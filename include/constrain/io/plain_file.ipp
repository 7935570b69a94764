#pragma once

#include "constrain/io/plain_file.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/directory_handle.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE descriptor open_plain_file(std::string const& path, std::string const& description,
                                                          int flags) {
  auto const refusal = [&](std::string const& cause, char const* advice) {
    return error(
        {description, " '", path, "' cannot be written (", cause, "); ", advice, " or choose another directory"});
  };
  constexpr char const* remove_advice = "remove it";
  // Without O_NONBLOCK, opening a pipe only for writing would wait for a reader.
  descriptor file(::open(system_path(path), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  // With O_EXCL in `flags`, opening any existing file fails with EEXIST. Without O_EXCL, opening a symbolic link fails
  // with ELOOP (FreeBSD: EMLINK), and opening a pipe that has no reader with O_WRONLY fails with ENXIO. A long chain of
  // symbolic links in the directories of the path also gives ELOOP.
  if (int const code = errno; !file && (code == ELOOP || code == EMLINK)) {
    auto const link = detail::status_at(AT_FDCWD, path);
    if (link && S_ISLNK(link->st_mode)) throw refusal("it is a symbolic link", remove_advice);
    throw refusal(reason(code), remedy(code));
  }
  if (!file && (errno == ENXIO || errno == EISDIR)) throw refusal("it is not a regular file", remove_advice);
  if (!file) throw refusal(reason(), remedy());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw refusal(reason(), remedy());
  if (!S_ISREG(status.st_mode)) throw refusal("it is not a regular file", remove_advice);
  if (status.st_nlink > 1) throw refusal("it has another hard link", remove_advice);
  return file;
}

} // namespace constrain::io
