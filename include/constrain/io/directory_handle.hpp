#pragma once

#include "constrain/io/descriptor.hpp"
#include "constrain/io/path.hpp"

#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// The status of a name in an open directory, without following a symbolic link; nullopt if it does not exist.
std::optional<struct stat> status_at(int directory, std::string const& name);

/// Whether a path exists, dangling symbolic links included.
inline bool exists(std::string const& path) { return status_at(AT_FDCWD, system_path(path)).has_value(); }

/// Whether `a` and `b` are the status of the same file or directory: equal device and inode.
inline bool same_file(struct stat const& a, struct stat const& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// An open directory. File operations go through its descriptor, so they stay in this directory even if its path is
/// renamed or replaced by a link meanwhile.
class directory_handle {
public:
  directory_handle() = default;
  /// Opens a path; symbolic links are followed. On failure the handle is empty and `errno` set.
  explicit directory_handle(std::string const& path)
      : directory_handle(::open(system_path(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  /// Opens the directory `name` in the open directory `holder`; fails for a symbolic link.
  directory_handle(directory_handle const& holder, std::string const& name)
      : directory_handle(::openat(holder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}

  explicit operator bool() const { return static_cast<bool>(file_); }
  int get() const { return file_.get(); }
  uid_t owner() const { return status_.st_uid; }
  struct stat const& status() const {
    return status_;
  }
  /// Whether `name` in `holder` refers to this directory now.
  bool is_at(directory_handle const& holder, std::string const& name) const;
  /// The names of the directory's entries, in no particular order.
  [[gnu::noinline, gnu::cold]] std::vector<std::string> names() const {
    return directory_names(".", get()).value_or(std::vector<std::string>{});
  }
  /// fsync, so that changes of the directory's entries survive a power failure. A file system that cannot sync a
  /// directory (EINVAL) counts as success.
  bool sync() const { return ::fsync(get()) == 0 || errno == EINVAL; }

  /// Locks the directory until the handle is closed; false if another process holds the lock (`errno` is EWOULDBLOCK)
  /// or the file system has no locks (another `errno`). Does not wait for the lock: any process that may read the
  /// directory can hold it forever.
  bool lock() const { return ::flock(get(), LOCK_EX | LOCK_NB) == 0; }

  /// The content of a regular file that belongs to the directory's owner; nullopt for anything else, a symbolic link,
  /// more than 64 MiB, a failed read or, with `alone`, a file with other hard links.
  [[gnu::cold]] std::optional<std::string> text(std::string const& name, bool alone = false) const;

  /// Removes a regular file that belongs to the directory's owner; keeps anything else. False if removing fails.
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
