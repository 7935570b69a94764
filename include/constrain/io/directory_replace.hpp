#pragma once

#include "constrain/base/error.hpp"
#include "constrain/io/directory_handle.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The stages of `directory_writer`, which replaces the directory at a path, the target, with a finished new one and
/// removes the old one. `parent` is always the parent directory, and `name` is a name in it. For marks, see
/// directory_mark.hpp.
///
/// If the file system can exchange two names atomically (Linux: ext4, xfs, btrfs, tmpfs, ...), the target is always
/// either the complete old or the complete new directory. Otherwise, two renames replace it: the first moves the old
/// directory to '.<name>.previous' or, if an older directory that can be restored has this name, to a kept name
/// (`kept_name`). The second moves the new directory to the target. The new directory is complete and on disk before
/// the first rename. If a save is interrupted between the renames, readers use '.<name>.previous'. The next save to the
/// same target restores it, provided that it has a valid mark and a manifest, and that the target does not exist or is
/// empty. Beside any other target, it stays until the target is a complete saved directory with a valid mark.
/// Concurrent writers of the same target are safe only with the atomic exchange.
namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// The manifest, which is removed first, followed by the files that it lists; nullopt if there is no manifest. Unless
/// the directory has a valid mark (`has_mark`), leaves out each file that is not a regular file with the length and
/// checksum in the manifest: the user has changed this file and may need it. Throws `error` if the manifest cannot be
/// read or is invalid. `display_name`: the directory's name in errors.
[[gnu::cold]] std::optional<std::vector<std::string>> listed_files(directory_handle const& directory,
                                                                   std::string const& display_name, bool has_mark);

/// A directory that a save may replace, and the files to remove with it.
struct old_directory {
  directory_handle directory;     // empty if there is no old directory
  std::vector<std::string> files; // names of the files to remove, in this order; a mark is last
};

/// The error of a save that failed with `errno` and left the target unchanged. `display_name`: the name of the target.
[[gnu::cold]] error not_saved(std::string const& display_name);

/// Returns the directory `name`, if it exists, and the files to remove with it. Throws `error` unless a save may
/// replace `name`: either nothing has this name, or `name` is a directory of `owner` that is empty, holds only an
/// incomplete mark, has a valid mark or has a manifest. A manifest without a mark (in a copy, or from a version without
/// marks) suffices, because the caller chose this directory as the target. Also throws `error` for an invalid manifest,
/// and if no file descriptors or memory are left. `owner`: the owner of new files. `display_name`: the directory's name
/// in errors. `attempts`: how many times to retry if another writer replaces the directory during the check.
[[gnu::cold]] old_directory check_replaceable(directory_handle const& parent, std::string const& name, uid_t owner,
                                              std::string const& display_name, int attempts = 100);

/// Writes a mark into the old directory, at `name` in `parent`, and adds the mark to `old.files`. If an invalid mark is
/// the last of `old.files`, replaces that mark. Does nothing if `old` has no directory, or if the directory is empty,
/// has a valid mark, holds only an incomplete one, or has a file of the user with the mark's name. With the mark, a
/// later save can finish the removal if this save is interrupted. Ignores failure: without a mark, a later save neither
/// finishes the removal nor restores '.<name>.previous'.
[[gnu::cold]] void mark_replaced(old_directory& old, directory_handle const& parent, std::string const& name);

/// '<target>.kept-<suffix>', with a different suffix in each call: the new name of a directory with files that this
/// library did not save, or of the old directory if a directory that can be restored has the name '.<target>.previous'.
[[gnu::cold]] std::string kept_name(std::string const& target);

/// Removes `files` from `directory`, and then the directory if `name` in `parent` still refers to it. If the directory
/// holds other files, renames it to `kept_name(target)` instead. Returns at the first file that cannot be removed.
/// Ignores other failures. `target`: the name to which a save is, or was, made.
[[gnu::cold]] void remove_directory(directory_handle const& directory, directory_handle const& parent,
                                    std::string const& name, std::vector<std::string> const& files,
                                    std::string const& target);

/// Removes the temporary directories '.<name>.partial-*' in `parent` that interrupted saves of `owner` to `name` left:
/// these are not locked, and have a valid mark, hold only an incomplete one or are empty. On a file system without
/// locks, removes nothing.
[[gnu::cold]] void remove_abandoned(directory_handle const& parent, std::string const& name, uid_t owner);

/// Removes '.<name>.previous' in `parent` if a save of `owner` replaced it with `name`, but was interrupted before the
/// removal. Does nothing unless `name` has a valid mark and all files of its manifest, with their lengths and
/// checksums, and '.<name>.previous' has a valid mark, holds only an incomplete one or is empty. Throws `error` if the
/// manifest cannot be read or is invalid. `display_name`: the target's name in errors.
[[gnu::cold]] void remove_replaced(directory_handle const& parent, std::string const& name, uid_t owner,
                                   std::string const& display_name);

/// Exchanges two names in a directory atomically. On failure, returns false and sets `errno` (ENOSYS or EINVAL: not
/// supported).
bool exchange(directory_handle const& parent, std::string const& first_name, std::string const& second_name);

} // namespace constrain::io::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/directory_replace.ipp"
#endif
