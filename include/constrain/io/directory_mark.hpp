#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "constrain/base/concat.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/directory_handle.hpp"
#include "constrain/io/manifest.hpp"

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

/// Identifies a directory within its file system, also against later ones that reuse its inode number: inode number
/// and, if available, file handle, which includes the inode's generation. The device number is left out, as it can
/// change when the file system is mounted again.
[[gnu::noinline, gnu::cold]] inline std::string lasting_identity(directory_handle const& directory) {
  auto text = std::to_string(directory.status().st_ino);
#if defined(MAX_HANDLE_SZ) && defined(AT_EMPTY_PATH)
  alignas(file_handle) unsigned char space[sizeof(file_handle) + MAX_HANDLE_SZ]{};
  auto* const handle = reinterpret_cast<file_handle*>(space);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(directory.get(), "", handle, &mount, AT_EMPTY_PATH) != 0) return text;
  text += ' ';
  for (unsigned i = 0; i < handle->handle_bytes; ++i) {
    auto const byte = space[offsetof(file_handle, f_handle) + i];
    text += "0123456789abcdef"[byte >> 4], text += "0123456789abcdef"[byte & 15];
  }
#endif
  return text;
}

/// The first lines of a mark, before the list of files. `name`: the final name of the saved directory, also while a
/// save still has a temporary name.
[[gnu::noinline, gnu::cold]] inline std::string mark_head(directory_handle const& directory,
                                                          directory_handle const& holder, std::string_view name) {
  std::string text(mark_begin);
  text += concat({"directory ", lasting_identity(directory), "\nin ", lasting_identity(holder), "\nname "});
  return text += concat({name.size(), " ", name, "\n"});
}

/// Writes the mark of a directory.
class directory_mark {
public:
  directory_mark() = default;
  /// Creates the mark with a list of `files`. On failure it is empty and `errno` set.
  directory_mark(directory_handle const& directory, directory_handle const& holder, std::string_view name,
                 std::vector<std::string> const& files = {})
      : file_(::openat(directory.get(), mark_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)) {
    auto text = mark_head(directory, holder, name);
    for (auto const& file : files) text += file + '\n';
    if (file_ && !write_all(file_, text)) file_ = {};
  }
  explicit operator bool() const { return static_cast<bool>(file_); }
  /// Whether mark and directory have the same owner: if not, another user has replaced the directory just created.
  bool owns(directory_handle const& directory) const {
    struct stat status {};
    return ::fstat(file_.get(), &status) == 0 && status.st_uid == directory.owner();
  }

  /// Adds files that are about to be created to the list and syncs it to disk. Files that are already listed cost
  /// nothing. False, with `errno`, on failure.
  [[gnu::noinline, gnu::cold]] bool add(std::vector<std::string> const& names) {
    std::string text;
    for (auto const& name : names)
      if (std::find(listed_.begin(), listed_.end(), name) == listed_.end()) text += name + '\n';
    if (text.empty()) return true;
    if (!write_all(file_, text) || !sync()) return false;
    listed_.insert(listed_.end(), names.begin(), names.end());
    return true;
  }
  bool sync() { return ::fsync(file_.get()) == 0 || errno == EINVAL; }

private:
  descriptor file_;
  std::vector<std::string> listed_;
};

/// The files that the library may remove from a directory in `holder`, the mark last; nullopt if it has no valid mark
/// or another owner than `owner`. `name`: see `mark_head`.
[[gnu::noinline, gnu::cold]] inline std::optional<std::vector<std::string>> marked_files(
    directory_handle const& directory, directory_handle const& holder, std::string_view name, uid_t owner) {
  if (!directory || directory.owner() != owner) return std::nullopt;
  auto const text = directory.text(mark_name, true);
  auto const there = text ? std::vector<std::string>{} : directory.names();
  // An empty directory is left by a save that ended before it created its mark, or after it removed it.
  if (!text) return there.empty() ? std::optional(there) : std::nullopt;
  auto const head = mark_head(directory, holder, name);
  if (!text->starts_with(head)) {
    if (!head.starts_with(*text) || directory.names().size() != 1) return std::nullopt;
    return std::vector<std::string>{mark_name}; // a save ended while it wrote the mark's first lines
  }
  std::vector<std::string> files;
  auto rest = std::string_view(*text).substr(head.size());
  for (auto end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    auto const file = rest.substr(0, end);
    if (file != manifest_name && !valid_file_name(file)) return std::nullopt;
    files.emplace_back(file);
    rest.remove_prefix(end + 1);
  }
  files.emplace_back(mark_name);
  return files;
}

} // namespace constrain::io::detail
