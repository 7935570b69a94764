#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "constrain/base/error.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The operating system's text for an error number, by default `errno`.
inline std::string reason(int number = errno) { return std::generic_category().message(number); }

/// Owns a POSIX file descriptor. Negative: none.
class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  /// Returns the descriptor and gives up its ownership.
  int release() { return std::exchange(number_, -1); }

private:
  int number_ = -1;
};

/// The path as a C string. Throws `error` if it has a NUL byte, at which the system would truncate it.
[[gnu::noinline, gnu::cold]] inline char const* system_path(std::string const& path) {
  if (path.find('\0') != std::string::npos)
    throw error({"the path '", path, "' has a NUL byte, shown as '?', which no file's name can have; leave it out"});
  return path.c_str();
}

/// Writes all of `bytes`; false, with `errno` set, if that fails.
inline bool write_all(descriptor const& file, std::string_view bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB per call; some systems refuse more.
    auto const written = ::write(file.get(), bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Opens a regular file for reading, and stores its status in `status`, if given. Throws `error`, beginning with `what`
/// ('the text'), if that fails or it is no regular file.
[[gnu::noinline, gnu::cold]] inline descriptor open_file(std::string const& path, std::string const& what,
                                                         struct stat* status = nullptr) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  descriptor file(::open(system_path(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  auto const refuse = [&](std::string const& rest) { return error({what, " '", path, "' ", rest}); };
  if (!file && errno == ENOENT) throw refuse("does not exist; check the path");
  if (!file && errno == EWOULDBLOCK) throw refuse("is held by another process, by a lease; wait until that lets it go");
  if (!file) throw refuse("cannot be opened (" + reason() + "); check the path and its permissions");
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) throw refuse("cannot be examined (" + reason() + "); check the disk");
  if (S_ISDIR(found.st_mode)) throw refuse("is a directory; give the path of a file");
  if (!S_ISREG(found.st_mode)) throw refuse("is no regular file; give the path of one");
  if (status) *status = found;
  return file;
}

} // namespace constrain::io
