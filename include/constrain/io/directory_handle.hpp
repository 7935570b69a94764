#pragma once

#include "constrain/io/descriptor.hpp"
#include "constrain/io/path.hpp"

#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// The status of `name`, a path relative to the open directory `directory` (AT_FDCWD: the working directory). Does not
/// follow a symbolic link. If the name does not exist or its status cannot be read, returns nullopt and sets `errno`.
std::optional<struct stat> status_at(int directory, std::string const& name);

/// Whether a path exists and its status can be read; if not, sets `errno`. A symbolic link is not followed, so a broken
/// one counts as existing. Throws `error` for a NUL byte.
inline bool exists(std::string const& path) { return status_at(AT_FDCWD, system_path(path)).has_value(); }

/// Whether `a` and `b` are statuses of the same file or directory: their devices and inodes are equal.
inline bool same_file(struct stat const& a, struct stat const& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// An open directory. File operations go through its descriptor, so they stay in this directory even if another process
/// renames it or replaces its path with a link.
class directory_handle {
public:
  directory_handle() = default;
  /// Opens a path, following symbolic links. On failure the handle is empty and `errno` is set. Throws `error` for a
  /// NUL byte.
  explicit directory_handle(std::string const& path)
      : directory_handle(::open(system_path(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  /// Opens the directory `name` in the open directory `parent`. On failure, for example if `name` is a symbolic link
  /// (ELOOP or ENOTDIR), the handle is empty and `errno` is set.
  directory_handle(directory_handle const& parent, std::string const& name)
      : directory_handle(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}

  /// Whether a directory is open.
  explicit operator bool() const { return static_cast<bool>(file_); }
  /// The descriptor's number, for system calls; negative if no directory is open.
  int get() const { return file_.get(); }
  /// The directory's owner and status when the directory was opened; zeros if no directory is open.
  uid_t owner() const { return status_.st_uid; }
  struct stat const& status() const {
    return status_;
  }
  /// Whether `name` in `parent` refers to this directory now, and not through a symbolic link.
  bool is_at(directory_handle const& parent, std::string const& name) const;
  /// The names of the directory's entries, in no particular order; nullopt if reading fails.
  [[gnu::noinline, gnu::cold]] std::optional<std::vector<std::string>> names() const {
    return directory_names(".", get());
  }
  /// Syncs the directory to disk (`sync_to_disk`), so that changes to its entries survive a power failure. On failure
  /// returns false and sets `errno`.
  bool sync() const { return sync_to_disk(file_); }

  /// Locks the directory (flock) until the handle is closed. Returns false if another handle holds the lock (`errno` is
  /// EWOULDBLOCK) or if locking fails (other values of `errno`), for example on a file system without locks. Does not
  /// wait for the lock: any process that may read the directory can hold the lock forever.
  bool lock() const { return ::flock(get(), LOCK_EX | LOCK_NB) == 0; }

  /// The content of the file `name`; nullopt if the file cannot be read, or grows while it is read. Also nullopt unless
  /// `name` is a regular file, not a symbolic link, and the file belongs to the directory's owner, has at most 64 MiB
  /// and, with `single_link`, has no other hard link.
  [[gnu::cold]] std::optional<std::string> text(std::string const& name, bool single_link = false) const;

  /// Deletes the entry `name` if it is a regular file, not a symbolic link, and belongs to the directory's owner. Any
  /// other entry is kept. Returns false, with the reason in `errno`, only if the deletion fails; true if the entry was
  /// deleted, was kept or does not exist.
  bool remove(std::string const& name) const;

private:
  explicit directory_handle(int number) : file_(number) {
    if (file_ && ::fstat(file_.get(), &status_) != 0) file_ = {};
  }

  descriptor file_;
  struct stat status_ {};
};

} // namespace constrain::io::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/directory_handle.ipp"
#endif
