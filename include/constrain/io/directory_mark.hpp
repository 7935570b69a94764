#pragma once

#include "constrain/io/descriptor.hpp"
#include "constrain/io/directory_handle.hpp"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

/// The mark: a hidden file ".constrain" in each directory that this library creates. It tells which files the library
/// may remove later.
///
/// It records the identity (inode, file handle) of the directory and of its parent and the name of the save, and lists
/// each file before that file is created. So it is valid only for this directory in this place: copies, moved
/// directories and hard links of a mark are not valid, and their files are never removed. Nor can another user forge
/// one: mark and directory must have the owner that new files of this process get.
namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

inline constexpr char const* mark_name = ".constrain";
inline constexpr std::string_view mark_begin = "constrain made this directory and may remove the files listed here\n";

/// The first lines of a mark, before the list of files. `name`: the final name of the saved directory, also while a
/// save still has a temporary name.
[[gnu::cold]] std::string mark_head(directory_handle const& directory, directory_handle const& holder,
                                    std::string_view name);

/// Writes the mark of a directory.
class directory_mark {
public:
  directory_mark() = default;
  /// Creates the mark with a list of `files`. On failure it is empty and `errno` set.
  directory_mark(directory_handle const& directory, directory_handle const& holder, std::string_view name,
                 std::vector<std::string> const& files = {});
  explicit operator bool() const { return static_cast<bool>(file_); }
  /// Whether mark and directory have the same owner: if not, another user has replaced the directory just created.
  bool owns(directory_handle const& directory) const;

  /// Adds files that are about to be created to the list and syncs it to disk. Files that are already listed cost
  /// nothing. False, with `errno`, on failure.
  [[gnu::cold]] bool add(std::vector<std::string> const& names);
  bool sync() { return ::fsync(file_.get()) == 0 || errno == EINVAL; }

private:
  descriptor file_;
  std::vector<std::string> listed_;
};

/// The files that the library may remove from a directory in `holder`, the mark last; nullopt if it has no valid mark
/// or another owner than `owner`. `name`: see `mark_head`.
[[gnu::cold]] std::optional<std::vector<std::string>> marked_files(directory_handle const& directory,
                                                                   directory_handle const& holder,
                                                                   std::string_view name, uid_t owner);

} // namespace constrain::io::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/directory_mark.ipp"
#endif
