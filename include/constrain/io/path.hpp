#pragma once

#include "constrain/base/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Throws `error` if the directory at `path` is or contains this process's working directory (a path that does not
/// exist is neither): replacing that directory would break all relative paths. Also throws `error` for a NUL byte.
[[gnu::cold]] void refuse_working_directory(std::string const& path);

/// A path split into its directory and its last component, the name.
struct split_path {
  std::string directory, name; // `directory` ends with '/' or is empty

  /// Splits `path` or, if it is a symbolic link or its last component is '.' or '..', its real path (realpath(3)).
  /// Ignores '/' at the end. Other paths need not exist. Throws `error` if the real path cannot be found (as for a
  /// broken link), for a path without a name (such as "/") and for a NUL byte.
  [[gnu::cold]] explicit split_path(std::string path);

  /// The path of the hidden file or directory '.<name>.<kind>' beside this path. It need not exist.
  std::string sibling(std::string const& kind) const { return directory + sibling_name(kind); }
  /// The name '.<name>.<kind>' without the directory.
  std::string sibling_name(std::string const& kind) const { return concat({".", name, ".", kind}); }
  /// The directory, or "." if the path has none.
  std::string parent() const { return directory.empty() ? "." : directory; }

private:
  /// Splits `path` at the last '/'.
  void split(std::string const& path);
};

/// Where a new file or directory `path` would be: `path` or, if it is a broken link, the missing path that the link
/// refers to, through further links if there are any. nullopt if `path` exists, if there are more than 40 links (as in
/// a loop of links), or if a link refers to a missing path that ends in '.' or '..'. Throws `error` if `path` itself is
/// missing and does not end in a name, and for a NUL byte.
[[gnu::cold]] std::optional<split_path> missing_path(std::string path);

/// A suffix that makes a temporary name unlikely to exist already: the process id, the time's nanoseconds within the
/// second and a counter, joined by '-'. Each call in a process returns a different suffix.
[[gnu::cold]] std::string unlikely_suffix();

/// The error for a directory `path` that cannot be synced to disk. `code`: the error number.
error not_on_disk(std::string const& path, int code = errno);

/// The names in a directory, in no particular order, without '.' and '..'. On failure, returns nullopt and sets
/// `errno`. A relative path is relative to `base_directory`, an open directory (AT_FDCWD: the working directory).
/// Throws `error` for a NUL byte.
[[gnu::cold]] std::optional<std::vector<std::string>> directory_names(std::string const& path,
                                                                      int base_directory = AT_FDCWD);

/// Creates a directory and its parent directories, except those that exist; an empty path creates nothing. Throws
/// `error` for a NUL byte or if a directory cannot be created, and then keeps those created before.
[[gnu::cold]] void make_directories(std::string const& path);

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/path.ipp"
#endif
