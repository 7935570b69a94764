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

/// What the operating system says about an error number, `errno` by default.
inline std::string reason(int number = errno) { return std::generic_category().message(number); }

/// An open file, closed at the end of its life. Negative: none.
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
  /// Gives the number away, to be closed by the caller.
  int release() { return std::exchange(number_, -1); }

private:
  int number_ = -1;
};

/// A path as the system takes it, which would cut it off at a NUL byte. Throws `error` where there is one.
[[gnu::noinline, gnu::cold]] inline char const* system_path(std::string const& path) {
  if (path.find('\0') != std::string::npos)
    throw error({"the path '", path, "' has a NUL byte, shown as '?', which no file's name can have; leave it out"});
  return path.c_str();
}

/// Writes all of `bytes`; false, with `errno` set, where the system does not take them.
inline bool write_all(descriptor const& file, std::string_view bytes) {
  while (!bytes.empty()) {
    // Some systems refuse more than 2 GiB at once.
    auto const written = ::write(file.get(), bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Opens a regular file for reading. Throws `error`, beginning with `what` ('the text'), for anything else.
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
