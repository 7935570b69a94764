#pragma once

#include "constrain/io/directory_mark.hpp"
#include "constrain/io/directory_replace.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/path.hpp"
#include "constrain/io/text_bytes.hpp"

#include <concepts>
#include <cstddef>
#include <initializer_list>
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
/// The files are written to a hidden directory beside the target, the manifest (lengths, checksums) last, and synced to
/// disk; then the hidden directory replaces the target (see io/directory_replace.hpp). If anything fails before that,
/// the target is unchanged and the hidden directory is removed.
class directory_writer {
public:
  /// Whether to try the atomic exchange of two names; `no` is for tests of the fallback.
  enum class exchange { yes, no };

  /// Creates missing parent directories; if `path` is a symbolic link, its target is replaced. Throws `error` if `path`
  /// exists and is neither an empty nor a saved directory of this user, or if the hidden directory cannot be created.
  explicit directory_writer(std::string const& path, exchange way = exchange::yes);
  directory_writer(directory_writer const&) = delete;
  directory_writer& operator=(directory_writer const&) = delete;
  ~directory_writer() { discard(); }

  /// Optional: lists the names of later files in the mark (io/directory_mark.hpp) with a single sync to disk, instead
  /// of one sync per file.
  [[gnu::cold]] void announce(std::initializer_list<std::string_view> names);

  /// Writes one file; `fill` is called with the file's `output_file`. Throws `error` if the name is not a
  /// `valid_file_name` or is used twice, or if writing fails.
  template <std::invocable<output_file&> function> void write(std::string_view name, function const& fill) {
    check_name(name);
    put(std::string(name), filling(fill));
  }
  void write(std::string_view name, std::span<std::byte const> bytes) {
    write(name, [bytes](output_file& out) { out.write(bytes); });
  }
  void write(std::string_view name, std::string_view text) { write(name, text_bytes(text)); }

  /// Replaces the target by the new directory and removes the old one. Throws `error` if that fails.
  [[gnu::cold]] void commit();

private:
  split_path place_;
  std::string target_;               // for error messages
  std::string previous_, temporary_; // names in `holder_`; empty `temporary_`: no save in progress
  exchange way_;
  detail::directory_handle holder_, made_; // `made_` is locked: an unlocked one was left by an interrupted save
  detail::directory_mark mark_;
  std::vector<std::string> written_; // names in `made_`, the mark last
  manifest contents_;

  /// The owner of new files in `made_`: on a network file system not always this process's user.
  uid_t owner() const { return made_.owner(); }
  std::string kept() const { return concat({place_.name, ".kept-", unlikely_suffix()}); }

  /// Restores or removes '.<name>.previous' if a save was interrupted between its two renames. Keeps a directory of
  /// that name that has no valid mark.
  [[gnu::cold]] void recover();

  /// Removes temporary directories of interrupted saves: those with a valid mark and no lock.
  [[gnu::cold]] void remove_abandoned();

  /// Creates, locks and marks the temporary directory.
  [[gnu::cold]] void begin();

  // A type-erased `fill` function, so that `put` need not be a template.
  struct filler {
    void (*call)(void const*, output_file&);
    void const* object;
  };
  template <class function> static filler filling(function const& fill) {
    return {[](void const* object, output_file& out) { (*static_cast<function const*>(object))(out); }, &fill};
  }

  [[gnu::cold]] void check_name(std::string_view name) const;

  [[gnu::cold]] void put(std::string const& name, filler const& fill);

  void replace(detail::old_directory const& old);

  /// Removes the replaced directory: the old directory that was checked, or one that another writer has saved since.
  [[gnu::cold]] void remove_old(detail::old_directory const& old, std::string const& name);

  /// Puts the new directory in place. Returns the old directory's new name; empty if there was none.
  [[gnu::cold]] std::string move();

  [[noreturn]] void fail() const;

  [[gnu::noinline, gnu::cold]] void discard() noexcept try {
    mark_ = {}; // closes the mark first: NFS renames an open file instead of removing it
    if (!temporary_.empty()) {
      written_.push_back(std::string(detail::mark_name));
      detail::remove_directory(made_, holder_, temporary_, written_, kept());
    }
    temporary_.clear();
    made_ = {};
  } catch (...) { temporary_.clear(); }
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/directory_writer.ipp"
#endif
