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

/// The mark is a hidden file, ".constrain", with the list of files that a later save may remove from the mark's
/// directory. `directory_writer` writes a mark into each new directory. Before it replaces a non-empty old directory
/// without a valid mark, it tries to write a mark into that directory too (`mark_replaced` lists the exceptions).
///
/// After a fixed first line, a mark contains the identity (inode and, if available, file handle) of its directory and
/// of the parent directory, the final name of the saved directory, and the list of files. Each file of a new directory
/// is listed before it is created. A mark is valid only in the directory and the parent that it identifies, and only
/// for a save to that final name: a mark in a copy or in a moved directory permits no removal. A mark with another hard
/// link permits no removal either. Another user cannot forge a mark: the mark and the directory must have the same
/// owner as this process's new files.
namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// The name of the mark, and its first line.
inline constexpr char const* mark_name = ".constrain";
inline constexpr std::string_view mark_begin = "constrain made this directory and may remove the files listed here\n";

/// The first lines of a mark, before the list of files. `parent`: the parent directory. `name`: the final name of the
/// saved directory, even while the directory still has a temporary name.
[[gnu::cold]] std::string mark_head(directory_handle const& directory, directory_handle const& parent,
                                    std::string_view name);

/// Writes the mark of a directory.
class directory_mark {
public:
  directory_mark() = default;
  /// Creates the mark, which must not exist, and lists `files` in it; does not sync it to disk. `parent`, `name`: see
  /// `mark_head`. On failure the object is empty and `errno` is set.
  directory_mark(directory_handle const& directory, directory_handle const& parent, std::string_view name,
                 std::vector<std::string> const& files = {});
  /// Whether a mark is open.
  explicit operator bool() const { return static_cast<bool>(file_); }
  /// Whether the mark and its directory, `directory`, have the same owner. If not, another user has replaced the new
  /// directory.
  bool has_owner_of(directory_handle const& directory) const;

  /// Lists files that are about to be created, and syncs the mark to disk. Does nothing if `add` has listed all of them
  /// before. On failure returns false and sets `errno`.
  [[gnu::cold]] bool add(std::vector<std::string> const& names);
  /// Syncs the mark to disk (`sync_to_disk`). On failure returns false and sets `errno`.
  bool sync() { return sync_to_disk(file_); }

private:
  descriptor file_;
  std::vector<std::string> listed_;
};

/// Returns the files that the library may remove from `directory`, which is in `parent`, with the mark last. The list
/// is empty if the directory is empty. The list contains only the mark if the directory has no other file and the
/// mark's first lines are incomplete. Otherwise, returns nullopt if there is no valid mark. Also returns nullopt if
/// `directory` is not open, cannot be read or does not belong to `owner`. `name`: see `mark_head`.
[[gnu::cold]] std::optional<std::vector<std::string>> marked_files(directory_handle const& directory,
                                                                   directory_handle const& parent,
                                                                   std::string_view name, uid_t owner);

} // namespace constrain::io::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/directory_mark.ipp"
#endif
