#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "constrain/io/descriptor.hpp"
#include "constrain/io/path.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// What stands at a name: a link itself, not what it leads to. Nothing where there is nothing.
inline std::optional<struct stat> status_at(int directory, std::string const& name) {
  struct stat found {};
  if (::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return found;
}

inline bool exists(std::string const& path) { return status_at(AT_FDCWD, system_path(path)).has_value(); }

/// Whether it is one file or directory under two names.
inline bool same_file(struct stat const& a, struct stat const& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// An open directory. Whatever becomes of its name meanwhile, a link put there included, this stays the one that was
/// opened, and all that is done to its files is done in it.
class directory_handle {
public:
  directory_handle() = default;
  /// A path as it is given: links are followed. None, with `errno`, where it is no directory or cannot be read.
  explicit directory_handle(std::string const& path)
      : directory_handle(::open(system_path(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  /// A name in an open directory. A link there is none, wherever it leads.
  directory_handle(directory_handle const& holder, std::string const& name)
      : directory_handle(::openat(holder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}

  explicit operator bool() const { return static_cast<bool>(file_); }
  int get() const { return file_.get(); }
  uid_t owner() const { return status_.st_uid; }
  struct stat const& status() const {
    return status_;
  }
  /// Whether it stands at this name now.
  bool is_at(directory_handle const& holder, std::string const& name) const {
    auto const there = status_at(holder.get(), name);
    return there && same_file(*there, status_);
  }
  [[gnu::noinline, gnu::cold]] std::vector<std::string> names() const {
    return directory_names(".", get()).value_or(std::vector<std::string>{});
  }
  /// Makes what was done to its entries survive a power cut, where the file system can (else: EINVAL).
  bool sync() const { return ::fsync(get()) == 0 || errno == EINVAL; }

  /// Claims it for as long as this is open; false where another process has. Where the file system knows no locks,
  /// `errno` is another than EWOULDBLOCK. Never waits: whoever may read a directory can lock it for ever.
  bool lock() const { return ::flock(get(), LOCK_EX | LOCK_NB) == 0; }

  /// The text of a small regular file of the directory's owner. A link, a pipe or a larger one is none; nor is one with
  /// a second name, where it must be `alone`.
  [[gnu::noinline, gnu::cold]] std::optional<std::string> text(std::string const& name, bool alone = false) const {
    constexpr std::size_t most = std::size_t{1} << 26;
    descriptor const file(::openat(get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat found {};
    if (!file || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
    if (found.st_uid != owner() || (alone && found.st_nlink != 1)) return std::nullopt;
    std::string all(std::min(static_cast<std::size_t>(found.st_size), most) + 1, '\0'); // one more, to see its end
    for (std::size_t size = 0; size < all.size();) {
      auto const got = ::read(file.get(), all.data() + size, all.size() - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return std::nullopt;
      if (got == 0) return all.resize(size), all;
      size += static_cast<std::size_t>(got);
    }
    return std::nullopt;
  }

  /// Removes a name of a regular file of the directory's owner; false where the system does not let it. Anything else
  /// that stands there stays.
  bool remove(std::string const& name) const {
    auto const found = status_at(get(), name);
    if (!found || !S_ISREG(found->st_mode) || found->st_uid != owner()) return true;
    return ::unlinkat(get(), name.c_str(), 0) == 0 || errno == ENOENT;
  }

private:
  explicit directory_handle(int number) : file_(number) {
    if (file_ && ::fstat(file_.get(), &status_) != 0) file_ = {};
  }

  descriptor file_;
  struct stat status_ {};
};

} // namespace constrain::io::detail
