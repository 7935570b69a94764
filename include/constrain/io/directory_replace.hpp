#pragma once

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/io/directory_handle.hpp"
#include "constrain/io/directory_mark.hpp"
#include "constrain/io/manifest.hpp"

/// Putting a finished directory in the place of an old one, and removing that.
///
/// Where the file system can exchange two names at once (Linux: ext4, xfs, btrfs, tmpfs, ...), it does: at every moment
/// the target is the whole old directory or the whole new one. Elsewhere there are two renames: the target becomes
/// '.<name>.previous', then the new directory becomes the target. Both directories are complete and on disk before the
/// first rename, so when the machine stops between the two, the old one is read from, and put back from, '.previous'.
/// Several writers of one target at the same time are safe in the first case only.
namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// What a directory's manifest lists, and it; nothing where it has none. Throws `error` where it cannot be read.
[[gnu::noinline, gnu::cold]] inline std::optional<std::vector<std::string>> listed_files(
    directory_handle const& directory, std::string const& shown) {
  std::string const name(manifest_name);
  if (!status_at(directory.get(), name)) return std::nullopt;
  auto const text = directory.text(name);
  if (!text) throw error({"'", shown, "/", name, "' is no regular file; use another copy"});
  std::vector<std::string> files;
  for (auto& entry : manifest::parse(*text, shown + "/" + name).files) files.push_back(std::move(entry.name));
  files.push_back(name);
  return files;
}

/// A directory that a save may replace, and its files that may be removed then.
struct old_directory {
  directory_handle directory; // none: nothing stands there
  std::vector<std::string> files;
};

/// Throws `error` unless what stands at a name is missing, or ours and empty, marked, or with a manifest: nothing else
/// may be replaced. The manifest alone is enough here, since somebody named this very directory: it was copied, or
/// saved by a version that left no mark.
[[gnu::noinline, gnu::cold]] inline old_directory check_replaceable(directory_handle const& holder,
                                                                    std::string const& name, uid_t owner,
                                                                    std::string const& shown, int attempts = 100) {
  auto const status = status_at(holder.get(), name);
  if (!status) return {};
  auto const refuse = [&](std::string const& why) {
    return error({"'", shown, "' ", why, ", so saving there would lose it; move it away or choose another path"});
  };
  old_directory old{directory_handle(holder, name), {}};
  if (S_ISREG(status->st_mode)) throw refuse("is a file");
  if (S_ISLNK(status->st_mode)) throw refuse("is a link");
  if (!S_ISDIR(status->st_mode)) throw refuse("is no directory");
  if (!old.directory) throw refuse("cannot be opened (" + reason() + ")");
  if (old.directory.owner() != owner) throw refuse("belongs to another user");
  auto const marked = marked_files(old.directory, holder, name, owner);
  std::optional<std::vector<std::string>> listed;
  // While this was read, another writer may have replaced it, and be removing it.
  auto const gone = [&] { return attempts > 0 && !old.directory.is_at(holder, name); };
  try {
    listed = listed_files(old.directory, shown);
  } catch (error const&) {
    if (gone()) return check_replaceable(holder, name, owner, shown, attempts - 1);
    throw refuse("holds a manifest that cannot be read");
  }
  if (!marked && !listed) {
    if (gone()) return check_replaceable(holder, name, owner, shown, attempts - 1);
    throw refuse("holds files that are not a checkpoint");
  }
  if (listed) old.files = *listed;
  if (marked) old.files.insert(old.files.end(), marked->begin(), marked->end());
  // The mark that was copied with it, or that was begun by a save that died.
  auto const mark = marked ? std::nullopt : old.directory.text(mark_name);
  if (mark && (mark->starts_with(mark_begin) || mark_begin.starts_with(*mark))) old.files.emplace_back(mark_name);
  return old;
}

/// Marks a directory without a mark of its own before it is replaced, so that it is known for ours if the removal is
/// cut short. What cannot be marked is then left.
[[gnu::noinline, gnu::cold]] inline void mark_replaced(old_directory& old, directory_handle const& holder,
                                                       std::string const& name) {
  if (!old.directory || old.files.empty() || marked_files(old.directory, holder, name, old.directory.owner())) return;
  if (old.files.back() == mark_name) {
    if (!old.directory.remove(mark_name)) return;
    old.files.pop_back();
  }
  directory_mark mark(old.directory, holder, name, old.files);
  if (!mark && errno == EEXIST) return; // somebody's own file
  if (mark) mark.sync();
  old.files.push_back(mark_name);
}

/// Removes files and then the directory, if it still is what stands at `name`. What somebody else put into it stays:
/// the directory then becomes `kept`.
[[gnu::noinline, gnu::cold]] inline void remove_directory(directory_handle const& directory,
                                                          directory_handle const& holder, std::string const& name,
                                                          std::vector<std::string> const& files,
                                                          std::string const& kept) {
  // The mark is the last: where the system fails, it stays, and so a later save knows what to remove.
  for (auto const& file : files)
    if (!directory.remove(file)) return;
  // Of a name that changes hands after this line, no more is lost than an empty directory.
  if (!directory.is_at(holder, name)) return;
  if (::unlinkat(holder.get(), name.c_str(), AT_REMOVEDIR) != 0 && (errno == ENOTEMPTY || errno == EEXIST))
    static_cast<void>(::renameat(holder.get(), name.c_str(), holder.get(), kept.c_str()));
}

inline bool exchange(directory_handle const& holder, std::string const& one, std::string const& other) {
#if defined(SYS_renameat2)
  constexpr unsigned exchange_names = 2; // RENAME_EXCHANGE, for C libraries without it.
  return ::syscall(SYS_renameat2, holder.get(), one.c_str(), holder.get(), other.c_str(), exchange_names) == 0;
#else
  static_cast<void>(holder), static_cast<void>(one), static_cast<void>(other);
  return errno = ENOSYS, false;
#endif
}

} // namespace constrain::io::detail
