#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/io/directory_handle.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/path.hpp"

#include <cerrno>
#include <optional>
#include <string>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Writes a file atomically: the content goes to a temporary file in the same directory, and `commit()` renames that
/// file to `path`. Without a commit, the destructor removes the temporary file, and an older file at `path` stays. (A
/// killed process leaves the temporary file, '.<name>.partial-<suffix>'.) The older file must be a regular file. Its
/// other hard links keep the old content; the new file has the mode of a new file (see `output_file`), not the mode of
/// the older file.
class atomic_file {
public:
  /// What to do if `path` is a symbolic link: replace its target, or throw.
  enum class links { followed, refused };

  /// Throws `error` if the temporary file cannot be created, or if `path` is a directory or another non-regular file, a
  /// broken symbolic link or, with `links::refused`, any symbolic link. Also throws `error` if `path` does not end in a
  /// name, ends with '/' or contains a NUL byte.
  [[gnu::noinline, gnu::cold]] explicit atomic_file(std::string const& path, links link_policy = links::followed)
      : target_(checked(path, link_policy)), parent_(open_parent()),
        temporary_(target_.sibling_name(concat({"partial-", unlikely_suffix()}))),
        file_(temporary_, path, parent_.get()), temporary_status_(detail::status_at(parent_.get(), temporary_)) {
    check_target();
  }
  atomic_file(atomic_file const&) = delete;
  atomic_file& operator=(atomic_file const&) = delete;
  ~atomic_file() { discard(); }

  /// The temporary file to write to, until `commit`.
  output_file& out() { return file_; }

  /// Syncs the temporary file to disk, renames it to `path` and syncs the directory. Throws `error` on failure, and if
  /// no write is in progress: an earlier commit has renamed the file, has failed to rename it, or has found that the
  /// target is not a regular file. After a failure, the older file is unchanged, unless the directory sync failed:
  /// then, the new file has already replaced it.
  [[gnu::cold]] void commit();

private:
  split_path target_;
  detail::directory_handle parent_; // the target's parent directory
  std::string temporary_;           // name of the temporary file; empty after a commit or a discard
  output_file file_;
  std::optional<struct stat>
      temporary_status_; // the temporary file's status: `discard` removes no other file of that name

  std::string path() const { return target_.directory + target_.name; }

  /// Returns `path`. Throws `error` if `path` is a symbolic link and `link_policy` refuses links, or for a '/' at the
  /// end or a NUL byte.
  static std::string const& checked(std::string const& path, links link_policy);

  /// Opens the target's parent directory. Throws `error` if that fails.
  detail::directory_handle open_parent() const;

  /// Throws `error`, and discards the temporary file, if the target exists and is not a regular file.
  [[gnu::cold]] void check_target();

  /// Ends the write, and removes the temporary file if its name still refers to it. Does nothing after a commit.
  [[gnu::cold]] void discard() noexcept;
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/atomic_file.ipp"
#endif
