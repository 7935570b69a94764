#pragma once

#include "constrain/io/directory_replace.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/directory_mark.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/path.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

/// Whether the directory has a regular file with the name, length and checksum of the manifest entry.
[[gnu::cold]] CONSTRAIN_INLINE bool matches_entry(directory_handle const& directory, manifest::entry const& entry) {
  descriptor const file(::openat(directory.get(), entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (static_cast<std::uint64_t>(status.st_size) != entry.bytes) return false;
  crc32c checksum;
  std::vector<std::byte> buffer(std::size_t{1} << 16);
  for (;;) {
    auto const n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) return checksum.value() == entry.crc32c;
    checksum.update(std::span<std::byte const>(buffer.data(), static_cast<std::size_t>(n)));
  }
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::vector<std::string>> listed_files(directory_handle const& directory,
                                                                                    std::string const& display_name,
                                                                                    bool has_mark) {
  std::string const name(manifest_name);
  if (!status_at(directory.get(), name)) return std::nullopt;
  auto const text = directory.text(name);
  if (!text)
    throw error({"'", display_name, "/", name,
                 "' is not a readable regular file of the directory's owner with at most 64 MiB; use another copy"});
  std::vector<std::string> files{name};
  for (auto& entry : manifest::parse(*text, concat({display_name, "/", name})).files)
    if (has_mark || matches_entry(directory, entry)) files.push_back(std::move(entry.name));
  return files;
}

/// The name of a saved directory in `directory`; nullopt if there is none.
[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::string> saved_inside(directory_handle const& directory) {
  auto const has = [&](std::string const& name, std::string_view file) {
    return status_at(directory.get(), concat({name, "/", file})).has_value();
  };
  for (auto const& name : directory.names().value_or(std::vector<std::string>{}))
    if (has(name, mark_name) && has(name, manifest_name)) return name;
  return std::nullopt;
}

[[gnu::cold]] CONSTRAIN_INLINE error not_saved(std::string const& display_name) {
  return error({"'", display_name, "' cannot be saved (", reason(), "); ", remedy(), " or choose another path"});
}

[[gnu::cold]] CONSTRAIN_INLINE old_directory check_replaceable(directory_handle const& parent, std::string const& name,
                                                               uid_t owner, std::string const& display_name,
                                                               int attempts) {
  auto const status = status_at(parent.get(), name);
  if (!status) return {};
  auto const refusal = [&](std::string const& cause) {
    return error(
        {"'", display_name, "' ", cause, ", so saving there would lose it; move it away or choose another path"});
  };
  // Without descriptors or memory, nothing can be read, whatever the directory holds.
  auto const check_resources = [&] {
    if (lacks_resources()) throw not_saved(display_name);
  };
  old_directory old{directory_handle(parent, name), {}};
  if (S_ISREG(status->st_mode)) throw refusal("is a file");
  if (S_ISLNK(status->st_mode)) throw refusal("is a symbolic link");
  if (!S_ISDIR(status->st_mode)) throw refusal("is not a directory");
  if (!old.directory) check_resources();
  if (!old.directory) throw refusal(concat({"cannot be opened (", reason(), ")"}));
  if (old.directory.owner() != owner) throw refusal("belongs to another user");
  errno = 0;
  auto const mark_files = marked_files(old.directory, parent, name, owner);
  check_resources();
  std::optional<std::vector<std::string>> manifest_files;
  // Another writer may have replaced the directory that is open here, and may now be removing the files in it.
  auto const was_replaced = [&] { return attempts > 0 && !old.directory.is_at(parent, name); };
  try {
    manifest_files = listed_files(old.directory, display_name, mark_files.has_value());
  } catch (error const& e) {
    check_resources();
    if (was_replaced()) return check_replaceable(parent, name, owner, display_name, attempts - 1);
    std::string const sentence = e.what(); // after the last "; ", it says what to read instead
    throw refusal(concat({"holds a manifest that cannot be read (", sentence.substr(0, sentence.rfind("; ")), ")"}));
  }
  if (!mark_files && !manifest_files) {
    if (was_replaced()) return check_replaceable(parent, name, owner, display_name, attempts - 1);
    if (auto const saved = saved_inside(old.directory))
      throw error({"'", display_name, "' holds the saved run '", *saved, "', so saving there would lose that run; ",
                   "choose another path or, if '", display_name,
                   "' is the .directory of `fit`, set .keep_last, which saves beside '", *saved, "'"});
    throw refusal("holds files that this library did not save");
  }
  if (manifest_files) old.files = *manifest_files;
  if (mark_files)
    for (auto const& file : *mark_files) old.files.push_back(std::string(file));
  // A mark that was copied with the directory, or that an interrupted save left incomplete, may be removed too.
  auto const mark = mark_files ? std::nullopt : old.directory.text(mark_name);
  if (mark && (mark->starts_with(mark_begin) || mark_begin.starts_with(*mark)))
    old.files.push_back(std::string(mark_name));
  return old;
}

[[gnu::cold]] CONSTRAIN_INLINE void mark_replaced(old_directory& old, directory_handle const& parent,
                                                  std::string const& name) {
  if (!old.directory || old.files.empty() || marked_files(old.directory, parent, name, old.directory.owner())) return;
  if (old.files.back() == mark_name) {
    if (!old.directory.remove(mark_name)) return;
    old.files.pop_back();
  }
  directory_mark mark(old.directory, parent, name, old.files);
  if (!mark && errno == EEXIST) return; // one of the user's files has the mark's name
  if (mark) mark.sync();
  old.files.push_back(std::string(mark_name));
}

[[gnu::cold]] CONSTRAIN_INLINE std::string kept_name(std::string const& target) {
  return concat({target, ".kept-", unlikely_suffix()});
}

[[gnu::cold]] CONSTRAIN_INLINE void remove_directory(directory_handle const& directory, directory_handle const& parent,
                                                     std::string const& name, std::vector<std::string> const& files,
                                                     std::string const& target) {
  // The mark is removed last: if an earlier removal fails, a later save can still read the list of files.
  for (auto const& file : files)
    if (!directory.remove(file)) return;
  // If another program reuses the name after this check, its directory is removed only if it is empty; otherwise, it is
  // renamed.
  if (!directory.is_at(parent, name)) return;
  if (::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) != 0 && (errno == ENOTEMPTY || errno == EEXIST))
    static_cast<void>(::renameat(parent.get(), name.c_str(), parent.get(), kept_name(target).c_str()));
}

[[gnu::cold]] CONSTRAIN_INLINE void remove_abandoned(directory_handle const& parent, std::string const& name,
                                                     uid_t owner) {
  auto const prefix = concat({".", name, ".partial-"});
  for (auto const& entry : parent.names().value_or(std::vector<std::string>{})) {
    if (!entry.starts_with(prefix)) continue;
    directory_handle const abandoned(parent, entry);
    if (!abandoned || abandoned.owner() != owner || !abandoned.lock()) continue;
    if (auto const files = marked_files(abandoned, parent, name, owner))
      remove_directory(abandoned, parent, entry, *files, name);
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void remove_replaced(directory_handle const& parent, std::string const& name,
                                                    uid_t owner, std::string const& display_name) {
  auto const previous_name = concat({".", name, ".previous"});
  // If a concurrent save renames a directory between these two opens, both may be the same directory: `same_file`
  // excludes this.
  directory_handle const previous(parent, previous_name), target(parent, name);
  auto const files = marked_files(previous, parent, name, owner);
  if (!files || !marked_files(target, parent, name, owner) || same_file(previous.status(), target.status())) return;
  auto const saved = listed_files(target, display_name, true), undamaged = listed_files(target, display_name, false);
  if (saved && undamaged && saved->size() == undamaged->size())
    remove_directory(previous, parent, previous_name, *files, name);
}

[[gnu::cold]] CONSTRAIN_INLINE bool exchange(directory_handle const& parent, std::string const& first_name,
                                             std::string const& second_name) {
#if defined(SYS_renameat2)
  constexpr unsigned exchange_names = 2; // RENAME_EXCHANGE, which some C libraries do not define
  return ::syscall(SYS_renameat2, parent.get(), first_name.c_str(), parent.get(), second_name.c_str(),
                   exchange_names) == 0;
#else
  static_cast<void>(parent), static_cast<void>(first_name), static_cast<void>(second_name);
  return errno = ENOSYS, false;
#endif
}

} // namespace constrain::io::detail
