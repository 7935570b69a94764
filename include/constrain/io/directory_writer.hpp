#pragma once

#include "constrain/io/directory_mark.hpp"
#include "constrain/io/directory_replace.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/path.hpp"
#include "constrain/io/text_bytes.hpp"

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Saves a directory of files atomically:
///
///     directory_writer writer("run/saved");
///     writer.write("state.json", text);
///     writer.write("weights.safetensors", [&](output_file& out) { write_safetensors(out, tensors); });
///     writer.commit();
///
/// The files are written to a hidden temporary directory beside the target and synced to disk. The last file is the
/// manifest (lengths and checksums). Then the temporary directory replaces the target (see io/directory_replace.hpp).
/// If anything fails before the replacement, the target's files are unchanged (at most a mark is added or replaced) and
/// the temporary directory is removed.
class directory_writer {
public:
  /// How the new directory replaces the old one. `yes`: by an atomic exchange of names or, if the file system does not
  /// support it, by two renames. `no`: by two renames, for tests.
  enum class exchange { yes, no };

  /// Begins a save to `path` or, if `path` is a symbolic link, to the directory that the link refers to. Creates
  /// missing parent directories. If an interrupted save left '.<name>.previous' with a valid mark and a manifest, and
  /// the target does not exist or is empty, renames '.<name>.previous' to the target first. Removes what interrupted
  /// saves to the target left: temporary directories (`remove_abandoned`), and a '.<name>.previous' that is not needed
  /// (`recover`). Throws `error` if `path` exists and is neither an empty nor a saved directory of this user, if its
  /// manifest is invalid, if `path` has no name (as '/', or a missing path that ends in '..') or contains a NUL byte,
  /// if `path` is a link that is part of a loop or refers to a directory that does not exist and was not restored, if
  /// `path` is or contains the working directory, or if a parent directory, the temporary directory or its mark cannot
  /// be created.
  explicit directory_writer(std::string const& path, exchange mode = exchange::yes);
  directory_writer(directory_writer const&) = delete;
  directory_writer& operator=(directory_writer const&) = delete;
  ~directory_writer() { discard(); }

  /// Optional: adds the names of later files to the mark (io/directory_mark.hpp) with a single sync to disk, instead of
  /// one sync per file. Ignores invalid names (see `valid_file_name`), and does nothing if no save is in progress. When
  /// a later save replaces the directory, it removes the files with these names, even those that were not written by
  /// this writer. Throws `error` if writing the mark fails.
  [[gnu::cold]] void announce(std::vector<std::string> const& names);

  /// Writes one file: calls `fill` with the file's `output_file`, then closes the file. Throws `error` if no save is in
  /// progress, if the name is not a `valid_file_name` or is used twice, or if writing fails. A failed write or an
  /// exception from `fill` ends the save: the temporary directory is removed.
  template <std::invocable<output_file&> function> void write(std::string_view name, function const& fill) {
    check_name(name);
    put(std::string(name), make_filler(fill));
  }
  /// Writes one file with the given content. Throws like the overload above.
  void write(std::string_view name, std::span<std::byte const> bytes) {
    write(name, [bytes](output_file& out) { out.write(bytes); });
  }
  void write(std::string_view name, std::string_view text) { write(name, text_bytes(text)); }

  /// Writes the manifest, replaces the target with the new directory and removes the saved files of the old directory.
  /// If other files are left in the old directory, it is renamed to '<name>.kept-<suffix>'. Throws `error` if no save
  /// is in progress, if the save fails, or if the parent directory cannot be synced after the replacement (then, the
  /// new directory is in place, and the old directory stays beside it under another name). Any other failed save leaves
  /// the files at the target unchanged, with one exception: if the second of two renames fails and the first cannot be
  /// undone, the old directory stays at '.<name>.previous', where readers find it, or, beside a '.<name>.previous' of
  /// an earlier interrupted save, at '<name>.kept-<suffix>'.
  [[gnu::cold]] void commit();

private:
  split_path split_target_;
  std::string target_;               // the target's path
  std::string previous_, temporary_; // names in `parent_`; without a save in progress, `temporary_` is empty
  exchange exchange_;
  detail::directory_handle parent_;              // the target's parent directory
  detail::directory_handle temporary_directory_; // locked if possible
  detail::directory_mark mark_;
  std::vector<std::string> written_names_; // names of the files in `temporary_directory_`; `discard` removes these
  manifest contents_;

  /// The directory that a save to `path` replaces. Throws as `split_path` does, but accepts a broken link if
  /// '.<name>.previous' exists beside the missing directory: `recover` may restore the directory.
  [[gnu::cold]] static split_path target_of(std::string const& path);

  /// The owner of new files in `temporary_directory_`. On a network file system, the owner is not always this process's
  /// user.
  uid_t owner() const { return temporary_directory_.owner(); }

  /// Whether `recover` restores the directory '.<name>.previous' (`previous`) if the target does not exist or is empty:
  /// the directory has a valid mark and a manifest.
  [[gnu::cold]] bool is_restorable(detail::directory_handle const& previous) const;

  /// Renames '.<name>.previous' to the target if '.<name>.previous' has a valid mark and a manifest: a save was
  /// interrupted between its two renames. If the target exists and is not an empty directory, the rename fails, and
  /// both stay, except that '.<name>.previous' is removed beside a complete saved directory with a valid mark
  /// (`remove_replaced`). If '.<name>.previous' has no valid mark or no manifest, calls `remove_previous`. Ignores
  /// failures.
  [[gnu::cold]] void recover();

  /// Removes '.<name>.previous' beside a complete saved directory with a valid mark (`remove_replaced`). Ignores
  /// failures.
  [[gnu::cold]] void remove_unneeded_previous();

  /// Removes '.<name>.previous' (`previous`) if it has a valid mark, is empty or holds only an incomplete mark. Ignores
  /// failures.
  [[gnu::cold]] void remove_previous(detail::directory_handle const& previous);

  /// Creates the temporary directory, locks it if the file system has locks, and marks it. Throws `error` if the
  /// directory or its mark cannot be created.
  [[gnu::cold]] void begin();

  // A type-erased `fill` function, so that `put` need not be a template.
  struct filler {
    void (*call)(void const*, output_file&);
    void const* object;
  };
  template <class function> static filler make_filler(function const& fill) {
    return {[](void const* object, output_file& out) { (*static_cast<function const*>(object))(out); }, &fill};
  }

  /// Throws `error` if no save is in progress, if `name` is not a `valid_file_name`, or if it was used before.
  [[gnu::cold]] void check_name(std::string_view name) const;

  /// Writes one file, without checking its name, and adds it to the manifest. If that fails, discards the save and
  /// rethrows.
  [[gnu::cold]] void put(std::string const& name, filler const& fill);

  /// Replaces the target with the temporary directory and ends the save. If there was an old directory (`old`), removes
  /// it and what an earlier save left at '.<name>.previous' (`remove_previous`). Throws `error` if the replacement
  /// fails, or if the parent directory cannot be synced; ignores a failed removal.
  void replace(detail::old_directory const& old);

  /// Removes the replaced directory, now called `name`, if it is the old directory that was checked, or one that
  /// another writer has saved since the check. Gives any other directory a kept name (`kept_name`).
  [[gnu::cold]] void remove_old(detail::old_directory const& old, std::string const& name);

  /// Renames the temporary directory to the target. Returns the old directory's new name; "" if there was no old
  /// directory. With two renames, that name is '.<name>.previous' or, if a directory that can be restored has this name
  /// (`is_restorable`), a kept name. If a rename fails, throws an `error` that says where the old content is. Also
  /// throws `error` if two renames are necessary, but something that cannot be restored has the name
  /// '.<name>.previous'.
  [[gnu::cold]] std::string move();

  /// Throws the error for a failed replacement, with the reason from `errno`. `old_content`: a phrase that says where
  /// the old content is.
  [[noreturn]] void fail(std::string const& old_content = "the old content is unchanged") const;

  /// Removes the temporary directory, if any, and ends the save.
  [[gnu::noinline, gnu::cold]] void discard() noexcept try {
    mark_ = {}; // closes the mark first: NFS renames an open file instead of removing it
    if (!temporary_.empty()) {
      written_names_.push_back(std::string(detail::mark_name));
      detail::remove_directory(temporary_directory_, parent_, temporary_, written_names_, split_target_.name);
    }
    temporary_.clear();
    temporary_directory_ = {};
  } catch (...) { temporary_.clear(); }
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/directory_writer.ipp"
#endif
