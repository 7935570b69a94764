#pragma once

#include "constrain/base/error.hpp"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <optional>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Throws `error` if the directory at `path` is this process's working directory or one of its parents: replacing that
/// directory would break all relative paths.
[[gnu::cold]] void check_not_worked_in(std::string const& path);

/// A path split into its directory and the last name.
struct split_path {
  std::string directory, name; // the directory ends with '/' or is empty

  /// Splits `path` or, if it is a symbolic link or ends in '.' or '..', its real path (realpath(3)). Throws `error` for
  /// a broken link or a path without a name, such as "/".
  [[gnu::cold]] explicit split_path(std::string path);

  /// The path of a hidden file or directory '.<name>.<kind>' in the same directory, so on the same file system.
  std::string sibling(std::string const& kind) const { return directory + sibling_name(kind); }
  /// The same name without the directory.
  std::string sibling_name(std::string const& kind) const { return concat({".", name, ".", kind}); }
  /// The directory, "." if the path has none.
  std::string holder() const { return directory.empty() ? "." : directory; }

private:
  /// Splits `path` at the last '/'.
  void cut(std::string const& path);
};

/// A suffix for temporary names that is unlikely to be in use: process id, nanoseconds of the time, a counter.
[[gnu::cold]] std::string unlikely_suffix();

/// The error for a directory that cannot be synced to disk. `code`: the error number.
error not_on_disk(std::string const& path, int code = errno);

/// Names in a directory, in no particular order, without '.' and '..'; nullopt, with `errno`, if the directory cannot
/// be opened or read. A relative path starts at `from`, an open directory (AT_FDCWD: the working directory).
[[gnu::cold]] std::optional<std::vector<std::string>> directory_names(std::string const& path, int from = AT_FDCWD);

/// Creates a directory and its missing parents. Throws `error` if that fails.
[[gnu::cold]] void make_directories(std::string const& path);

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/path.ipp"
#endif
