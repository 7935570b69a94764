#pragma once

#include "constrain/io/descriptor.hpp"

#include "constrain/base/error.hpp"

#include <algorithm>
#include <cstddef>
#include <fcntl.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

CONSTRAIN_INLINE descriptor& descriptor::operator=(descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

CONSTRAIN_INLINE char const* system_path(std::string const& path) {
  if (path.find('\0') != std::string::npos)
    throw error({"the path '", path, "' has a NUL byte, shown as '?', which no file's name can have; leave it out"});
  return path.c_str();
}

CONSTRAIN_INLINE bool write_all(descriptor const& file, std::string_view bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB per call; some systems refuse more.
    auto const written = ::write(file.get(), bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

CONSTRAIN_INLINE descriptor open_file(std::string const& path, std::string const& what, struct stat* status) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  descriptor file(::open(system_path(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  auto const refuse = [&](std::string const& rest) { return error({what, " '", path, "' ", rest}); };
  if (!file && errno == ENOENT) throw refuse("does not exist; check the path");
  if (!file && errno == EWOULDBLOCK) throw refuse("is under another process's lease; wait until the lease ends");
  if (!file) throw refuse("cannot be opened (" + reason() + "); check the path and its permissions");
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) throw refuse("cannot be examined (" + reason() + "); check the disk");
  if (S_ISDIR(found.st_mode)) throw refuse("is a directory; give the path of a file");
  if (!S_ISREG(found.st_mode)) throw refuse("is not a regular file; give the path of one");
  if (status) *status = found;
  return file;
}

} // namespace constrain::io
