#pragma once

#include "constrain/io/descriptor.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <fcntl.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

namespace detail {

/// Blocks SIGXFSZ in this thread while the object exists. A write beyond the limit on a file's size (`ulimit -f`)
/// raises this signal, which by default ends the process. While the signal is blocked, the write only fails (EFBIG).
class blocked_size_signal {
public:
  blocked_size_signal() {
    ::sigemptyset(&blocked_);
    ::sigaddset(&blocked_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &blocked_, &previous_mask_);
  }
  blocked_size_signal(blocked_size_signal const&) = delete;
  blocked_size_signal& operator=(blocked_size_signal const&) = delete;
  ~blocked_size_signal() {
    int const error_number = errno;
    // Consumes the signal that the failed write left pending: unblocking the signal would otherwise end the process.
    timespec const no_time{};
    if (error_number == EFBIG && ::sigismember(&previous_mask_, SIGXFSZ) == 0)
      ::sigtimedwait(&blocked_, nullptr, &no_time);
    ::pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
    errno = error_number;
  }

private:
  sigset_t blocked_{}, previous_mask_{};
};

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE int descriptor::above_standard_streams(int number) {
  if (number < 0 || number > STDERR_FILENO) return number;
  int const larger = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error_number = errno;
  ::close(number);
  errno = error_number;
  return larger;
}

[[gnu::cold]] CONSTRAIN_INLINE char const* remedy(int number) {
  switch (number) {
  case ENOSPC:
  case EDQUOT: return "free disk space";
  case EFBIG: return "raise the limit on a file's size";
  case EACCES:
  case EPERM:
  case EROFS: return "check the permissions";
  case ENOENT: return "create its directory";
  case ENOTDIR: return "make its parent a directory";
  case EEXIST: return "remove it";
  case ELOOP: return "check the links in its path";
  case EMFILE:
  case ENFILE: return "close other files";
  case ENOMEM: return "free memory or raise the limit on it (ulimit -v)";
  case ENAMETOOLONG: return "shorten the name";
  default: return "check the disk";
  }
}

[[gnu::cold]] CONSTRAIN_INLINE descriptor& descriptor::operator=(descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

[[gnu::cold]] CONSTRAIN_INLINE char const* system_path(std::string const& path) {
  if (path.find('\0') != std::string::npos)
    throw error({"the path '", path, "' has a NUL byte (shown as '?'), which no file's name can have; leave it out"});
  return path.c_str();
}

[[gnu::cold]] CONSTRAIN_INLINE bool write_all(descriptor const& file, std::string_view bytes) {
  detail::blocked_size_signal const blocked;
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB per call; some systems refuse more.
    auto const bytes_written = ::write(file.get(), bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (bytes_written < 0 && errno == EINTR) continue;
    if (bytes_written == 0) errno = EIO;
    if (bytes_written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(bytes_written));
  }
  return true;
}

[[gnu::cold]] CONSTRAIN_INLINE bool sync_to_disk(descriptor const& file) {
  // After a failed fsync, another one may succeed although the data is not on the disk, so only an interrupted fsync,
  // which has not failed, is repeated.
  int result = 0;
  do result = ::fsync(file.get());
  while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL;
}

[[gnu::cold]] CONSTRAIN_INLINE descriptor open_file(std::string const& path, std::string const& description,
                                                    struct stat* status) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  descriptor file(::open(system_path(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  auto const refusal = [&](std::string const& message) { return error({description, " '", path, "' ", message}); };
  if (!file && errno == ENOENT) throw refusal("does not exist; check the path");
  if (!file && errno == EWOULDBLOCK) throw refusal("is under another process's lease; wait until the lease ends");
  if (!file)
    throw refusal(concat(
        {"cannot be opened (", reason(), "); ", lacks_resources() ? remedy() : "check the path and its permissions"}));
  struct stat file_status {};
  if (::fstat(file.get(), &file_status) != 0)
    throw refusal(concat({"cannot be examined (", reason(), "); check the disk"}));
  if (S_ISDIR(file_status.st_mode)) throw refusal("is a directory; give the path of a file");
  if (!S_ISREG(file_status.st_mode)) throw refusal("is not a regular file; give the path of one");
  if (status) *status = file_status;
  return file;
}

} // namespace constrain::io
