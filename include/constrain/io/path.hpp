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

/// A path split into its directory and its name.
struct split_path {
  std::string directory, name; // the directory ends with '/' or is empty

  /// If `path` is a symbolic link, its target's path is split instead. Throws `error` for a dangling link or a path
  /// without a name.
  [[gnu::cold]] explicit split_path(std::string path);

  /// The hidden name '.<name>.<kind>' in the same directory, so on the same file system: as a path, and as a name.
  std::string sibling(std::string const& kind) const { return directory + sibling_name(kind); }
  std::string sibling_name(std::string const& kind) const { return concat({".", name, ".", kind}); }
  /// The directory, "." if the path has none.
  std::string holder() const { return directory.empty() ? "." : directory; }

private:
  void cut(std::string const& path);
};

/// A suffix for temporary names: process id, time and a counter.
[[gnu::cold]] std::string unlikely_suffix();

/// The error for a directory that cannot be synced to disk. `code`: the error number.
error not_on_disk(std::string const& path, int code = errno);

/// Names in a directory, in no particular order, without '.' and '..'; nullopt, with `errno`, if reading fails. A
/// relative path starts at `from`, an open directory.
[[gnu::cold]] std::optional<std::vector<std::string>> directory_names(std::string const& path, int from = AT_FDCWD);

/// Creates a directory and its missing parents. Throws `error` if that fails.
[[gnu::cold]] void make_directories(std::string const& path);

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/path.ipp"
#endif
