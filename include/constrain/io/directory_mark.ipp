#pragma once

#include "constrain/io/directory_mark.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/io/manifest.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// A string that identifies a directory within its file system: the inode number and, if available, the file handle of
/// name_to_handle_at(2). The handle includes the inode's generation, so a later directory with the same inode number
/// has a different string. The string has no device number, because that number can change when the file system is
/// mounted again.
[[gnu::cold]] CONSTRAIN_INLINE std::string lasting_identity(directory_handle const& directory) {
  auto text = concat({directory.status().st_ino});
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

[[gnu::cold]] CONSTRAIN_INLINE std::string mark_head(directory_handle const& directory, directory_handle const& parent,
                                                     std::string_view name) {
  std::string text(mark_begin);
  text += concat({"directory ", lasting_identity(directory), "\nin ", lasting_identity(parent), "\nname "});
  // The length distinguishes a name that contains newlines from a shorter name and a list of files.
  return text += concat({name.size(), " ", name, "\n"});
}

[[gnu::cold]] CONSTRAIN_INLINE directory_mark::directory_mark(directory_handle const& directory,
                                                              directory_handle const& parent, std::string_view name,
                                                              std::vector<std::string> const& files)
    : file_(::openat(directory.get(), mark_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)) {
  if (!file_) return; // returns before `mark_head`, which may change `errno`
  auto text = mark_head(directory, parent, name);
  for (auto const& file : files) text += concat({file, "\n"});
  if (!write_all(file_, text)) file_ = {};
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_mark::has_owner_of(directory_handle const& directory) const {
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 && status.st_uid == directory.owner();
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_mark::add(std::vector<std::string> const& names) {
  std::string text;
  for (auto const& name : names)
    if (std::find(listed_.begin(), listed_.end(), name) == listed_.end()) text += concat({name, "\n"});
  if (text.empty()) return true;
  if (!write_all(file_, text) || !sync()) return false;
  for (auto const& name : names) listed_.push_back(std::string(name));
  return true;
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::vector<std::string>> marked_files(directory_handle const& directory,
                                                                                    directory_handle const& parent,
                                                                                    std::string_view name,
                                                                                    uid_t owner) {
  if (!directory || directory.owner() != owner) return std::nullopt;
  auto const text = directory.text(mark_name, true);
  auto const head = mark_head(directory, parent, name);
  if (!text || !text->starts_with(head)) {
    auto const names = directory.names();
    if (!names) return std::nullopt; // a directory that cannot be read may hold any files
    // A save that was interrupted before it created the mark, or after it removed the mark, leaves an empty directory.
    if (!text) return names->empty() ? names : std::nullopt;
    if (!head.starts_with(*text) || names->size() != 1) return std::nullopt;
    return std::vector<std::string>{mark_name}; // a save was interrupted while it wrote the first lines
  }
  std::vector<std::string> files;
  auto remaining = std::string_view(*text).substr(head.size());
  for (auto end = remaining.find('\n'); end != remaining.npos; end = remaining.find('\n')) {
    auto const file = remaining.substr(0, end);
    if (file != manifest_name && !valid_file_name(file)) return std::nullopt;
    files.push_back(std::string(file));
    remaining.remove_prefix(end + 1);
  }
  files.push_back(std::string(mark_name));
  return files;
}

} // namespace constrain::io::detail
