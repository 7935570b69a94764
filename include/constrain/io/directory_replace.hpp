#pragma once

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "constrain/io/descriptor.hpp"
#include "constrain/io/failure.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/path.hpp"

/// Putting a finished directory in the place of an old one.
///
/// Where the file system can exchange two names at once (Linux: ext4, xfs, btrfs, tmpfs, ...), it does: at every moment
/// the target is the whole old directory or the whole new one. Elsewhere there are two renames: the target becomes
/// '.<name>.previous', then the new directory becomes the target. Both directories are complete and on disk before the
/// first rename, so when the machine stops between the two, the old one is read from, and put back from, '.previous'.
/// Several writers of one target at the same time are safe in the first case only.
namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

inline bool exists(std::string const& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

/// Throws `error` unless `directory` is missing, empty or one that a commit made: nothing else may be replaced.
inline void check_replaceable(std::string const& directory) {
  if (!exists(directory)) return;
  auto const refuse = [&](std::string const& reason) {
    return failure({"'", directory, "' ", reason,
                    ", so saving there would lose it; move it away or choose another path"});
  };
  descriptor const opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) throw refuse(errno == ENOTDIR ? "is a file" : "cannot be opened (" + reason() + ")");
  if (directory_names(directory).value_or(std::vector<std::string>{}).empty()) return;
  auto const path = directory + "/" + std::string(manifest_name);
  if (!exists(path)) throw refuse("holds files that are not a checkpoint");
  try {
    mapped_file const file(path);
    manifest::parse(file.text(), path);
  } catch (error const&) {
    throw refuse("holds a manifest that cannot be read");
  }
}

/// Removes what a commit wrote: the files that the manifest lists, or, where it has none because the commit never came
/// to its end, all. What somebody else put into it stays, in '<name>.kept-...'.
inline void remove_directory(std::string const& directory, std::string const& kept) {
  auto const path = directory + "/" + std::string(manifest_name);
  std::vector<std::string> names = directory_names(directory).value_or(std::vector<std::string>{});
  try {
    mapped_file const file(path);
    auto const listed = manifest::parse(file.text(), path);
    std::erase_if(names, [&](auto const& name) { return !listed.find(name); });
  } catch (error const&) {
  }
  for (auto const& name : names) ::unlink((directory + "/" + name).c_str());
  // Last, so that an interrupted removal still knows which files are whose.
  ::unlink(path.c_str());
  if (::rmdir(directory.c_str()) != 0 && (errno == ENOTEMPTY || errno == EEXIST))
    static_cast<void>(std::rename(directory.c_str(), kept.c_str()));
}

/// Locks a temporary directory for as long as its writer lives: what is not locked was left by one that died. Holds
/// nothing where the lock is another's or the file system has none.
inline descriptor lock_directory(std::string const& path, bool wait) {
  descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory && ::flock(directory.get(), wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) return {};
  return directory;
}

inline bool exchange(std::string const& one, std::string const& other) {
#if defined(SYS_renameat2)
  constexpr unsigned exchange_names = 2; // RENAME_EXCHANGE, for C libraries without it.
  return ::syscall(SYS_renameat2, AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), exchange_names) == 0;
#else
  static_cast<void>(one), static_cast<void>(other);
  return errno = ENOSYS, false;
#endif
}

} // namespace constrain::io::detail
