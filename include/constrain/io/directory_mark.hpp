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

/// The mark of a directory that this library made: the hidden file by which it knows what it may remove.
///
/// It names the directory, the directory above it and the name under which a save makes or replaces it, and lists each
/// file before that is created. So it speaks for this one directory in this one place: a copy, a directory moved to
/// another name or folder, and a second name of a mark are nobody's, and are left alone. Nor can another user write
/// one: it counts as the directory does, only with the owner whom the file system gives to what this process makes.
namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

inline constexpr char const* mark_name = ".constrain";
inline constexpr std::string_view mark_begin = "constrain made this directory and may remove the files listed here\n";

/// What tells a directory from every other one of its file system, those before it and after it included: the file
/// handle, where there is one, is of the inode and its generation. The device's number is no part of it: it changes
/// with mounts.
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

/// What a mark says before its list. `name`: under which a save makes it, also while that is under way.
[[gnu::noinline, gnu::cold]] inline std::string mark_head(directory_handle const& directory,
                                                          directory_handle const& holder, std::string_view name) {
  std::string text(mark_begin);
  text += concat({"directory ", lasting_identity(directory), "\nin ", lasting_identity(holder), "\nname "});
  return text += concat({name.size(), " ", name, "\n"});
}

/// A mark that is being written.
class directory_mark {
public:
  directory_mark() = default;
  /// Begins one, with a list of `files`. None, with `errno`, where it cannot be written.
  directory_mark(directory_handle const& directory, directory_handle const& holder, std::string_view name,
                 std::vector<std::string> const& files = {})
      : file_(::openat(directory.get(), mark_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)) {
    auto text = mark_head(directory, holder, name);
    for (auto const& file : files) text += file + '\n';
    if (file_ && !write_all(file_, text)) file_ = {};
  }
  explicit operator bool() const { return static_cast<bool>(file_); }
  /// Whether whoever writes it owns the directory as well: nobody has put one of his own in the place of one just made.
  bool owns(directory_handle const& directory) const {
    struct stat status {};
    return ::fstat(file_.get(), &status) == 0 && status.st_uid == directory.owner();
  }

  /// Lists files that are about to be created, and brings that to disk. False, with `errno`, where the system does not
  /// take it. Files that are listed already cost nothing.
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

/// The files that may be removed from a directory at a name in `holder`, the mark last; nothing where it is none of
/// ours: without a mark that speaks for it, of another owner than `owner`. `name`: see `mark_head`.
[[gnu::noinline, gnu::cold]] inline std::optional<std::vector<std::string>> marked_files(
    directory_handle const& directory, directory_handle const& holder, std::string_view name, uid_t owner) {
  if (!directory || directory.owner() != owner) return std::nullopt;
  auto const text = directory.text(mark_name, true);
  auto const there = text ? std::vector<std::string>{} : directory.names();
  // Empty: a save died before it made its mark, or after it removed it.
  if (!text) return there.empty() ? std::optional(there) : std::nullopt;
  auto const head = mark_head(directory, holder, name);
  if (!text->starts_with(head)) {
    if (!head.starts_with(*text) || directory.names().size() != 1) return std::nullopt;
    return std::vector<std::string>{mark_name}; // it died while it wrote the head
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
