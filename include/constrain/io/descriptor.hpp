#pragma once

#include "constrain/base/variant.hpp"

#include <cerrno>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The operating system's text for an error number, by default `errno`.
inline std::string reason(int number = errno) { return std::generic_category().message(number); }

/// A remedy for a failure to create, open, write or map a file, such as "free disk space" for a full disk. `number`:
/// the error number. Returns a string literal. The caller's error message also contains `reason(number)` and, unless
/// the file must exist, suggests another path or directory.
[[gnu::cold]] char const* remedy(int number = errno);

/// Whether a call failed because no descriptor or no memory was free, whatever its path. `number`: the error number.
inline bool lacks_resources(int number = errno) { return number == EMFILE || number == ENFILE || number == ENOMEM; }

/// Owns a POSIX file descriptor or is empty.
class descriptor {
public:
  descriptor() = default;
  /// Takes ownership of the descriptor `number`; a negative number means none. Replaces 0, 1 and 2 with a larger number
  /// of the same file: a program whose standard streams are closed may still write to these three. If the replacement
  /// fails, the object is empty and `errno` is set.
  explicit descriptor(int number) : number_(above_standard_streams(number)) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept;
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  /// The descriptor's number, for system calls; negative if there is none.
  int get() const { return number_; }
  /// Whether there is a descriptor.
  explicit operator bool() const { return number_ >= 0; }
  /// Returns the number (negative: none) and gives up ownership: the caller must close the descriptor.
  int release() { return std::exchange(number_, -1); }

private:
  /// `number`, or a larger descriptor of the same file instead of 0, 1 and 2. On failure, returns -1 and sets `errno`.
  [[gnu::cold]] static int above_standard_streams(int number);

  int number_ = -1;
};

/// `path.c_str()`. Throws `error` if the path contains a NUL byte, at which the system would truncate the path.
[[gnu::cold]] char const* system_path(std::string const& path);

/// Writes all of `bytes` at the file offset of `file`; continues after an interrupted or partial write. On failure,
/// returns false and sets `errno`; some of the bytes may have been written.
bool write_all(descriptor const& file, std::string_view bytes);

/// Syncs a file or directory to disk (fsync); continues after an interruption. On failure, returns false and sets
/// `errno`. EINVAL counts as success: file systems report it for a file or directory that they cannot sync.
[[gnu::cold]] bool sync_to_disk(descriptor const& file);

/// Opens a regular file for reading, and stores the file's status (fstat) in `*status` unless `status` is null. Throws
/// `error` if the file cannot be opened or is not a regular file; the message begins with `description`, such as "the
/// text". Also throws the error of `system_path` for a path with a NUL byte.
[[gnu::cold]] descriptor open_file(std::string const& path, std::string const& description,
                                   struct stat* status = nullptr);

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/descriptor.ipp"
#endif
