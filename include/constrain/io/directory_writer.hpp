#pragma once

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <fcntl.h>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/io/directory_replace.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/path.hpp"
#include "constrain/io/text_bytes.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Saves a directory of files atomically:
///
///     directory_writer w("run/checkpoint");
///     w.write("state.json", text);
///     w.write("weights.safetensors", [&](output_file& out) { write_safetensors(out, tensors); });
///     w.commit();
///
/// Everything is written to a hidden sibling directory, the manifest (lengths, checksums) last, and synced to disk;
/// then it replaces the target (see io/directory_replace.hpp). If anything fails before, the target is unchanged and
/// the sibling is removed.
class directory_writer {
public:
  /// Whether to try the atomic exchange of two names; `no` is for tests of the fallback.
  enum class exchange { yes, no };

  /// Creates missing parent directories; if `path` is a symbolic link, its target is replaced. Throws `error` if `path`
  /// exists and is not a saved directory of this user.
  explicit directory_writer(std::string const& path, exchange way = exchange::yes)
      : place_(path), target_(place_.directory + place_.name), previous_(place_.sibling_name("previous")), way_(way) {
    check_not_worked_in(target_);
    if (!place_.directory.empty()) make_directories(place_.directory);
    try {
      begin();
      recover();
      detail::check_replaceable(holder_, place_.name, owner(), target_);
      remove_abandoned();
    } catch (...) {
      discard();
      throw;
    }
  }
  directory_writer(directory_writer const&) = delete;
  directory_writer& operator=(directory_writer const&) = delete;
  ~directory_writer() { discard(); }

  /// Optional: lists the names of later files in the mark with a single sync to disk, instead of one per file.
  [[gnu::noinline, gnu::cold]] void announce(std::initializer_list<std::string_view> names) {
    std::vector<std::string> all{std::string(manifest_name)};
    for (auto const name : names)
      if (valid_file_name(name)) all.emplace_back(name);
    if (!temporary_.empty() && !mark_.add(all)) throw unwritable(target_ + "/" + detail::mark_name);
  }

  /// Writes one file; `fill` is called with its `output_file`. Throws `error` if the name is not a `valid_file_name` or
  /// is used twice, or if writing fails.
  template <std::invocable<output_file&> function> void write(std::string_view name, function const& fill) {
    check_name(name);
    put(std::string(name), filling(fill));
  }
  void write(std::string_view name, std::span<std::byte const> bytes) {
    write(name, [bytes](output_file& out) { out.write(bytes); });
  }
  void write(std::string_view name, std::string_view text) { write(name, text_bytes(text)); }

  /// Replaces the target by the new directory and removes the old one. Throws `error`.
  [[gnu::noinline, gnu::cold]] void commit() {
    if (temporary_.empty()) throw error({"'", target_, "' has no save under way; begin a new one"});
    put(std::string(manifest_name), filling([&](output_file& out) { out.write(contents_.text()); }));
    try {
      if (!made_.sync()) throw not_on_disk(target_);
      auto old = detail::check_replaceable(holder_, place_.name, owner(), target_);
      detail::mark_replaced(old, holder_, place_.name);
      replace(old);
    } catch (...) {
      discard();
      throw;
    }
  }

private:
  split_path place_;
  std::string target_;               // for error messages
  std::string previous_, temporary_; // names in `holder_`; empty `temporary_`: no save in progress
  exchange way_;
  detail::directory_handle holder_, made_; // `made_` is locked: an unlocked one was left by an interrupted save
  detail::directory_mark mark_;
  std::vector<std::string> written_; // names in `made_`, the mark last
  manifest contents_;

  /// The owner of new files here: on a network file system not always this process's user.
  uid_t owner() const { return made_.owner(); }
  std::string kept() const { return concat({place_.name, ".kept-", unlikely_suffix()}); }

  /// Restores or removes '.<name>.previous' if a save was interrupted between its two renames. One without a valid mark
  /// is left alone.
  [[gnu::noinline, gnu::cold]] void recover() {
    detail::directory_handle const left(holder_, previous_);
    auto const files = detail::marked_files(left, holder_, place_.name, owner());
    if (!files) return;
    bool const whole = detail::status_at(left.get(), std::string(manifest_name)).has_value();
    if (whole && !detail::status_at(holder_.get(), place_.name))
      static_cast<void>(::renameat(holder_.get(), previous_.c_str(), holder_.get(), place_.name.c_str()));
    else detail::remove_directory(left, holder_, previous_, *files, kept());
  }

  /// Removes temporary directories of interrupted saves: those with a valid mark and no lock.
  [[gnu::noinline, gnu::cold]] void remove_abandoned() {
    auto const prefix = place_.sibling_name("partial-");
    for (auto const& name : holder_.names()) {
      if (!name.starts_with(prefix)) continue;
      detail::directory_handle const left(holder_, name);
      if (!left || left.owner() != owner() || !left.lock()) continue;
      if (auto const files = detail::marked_files(left, holder_, place_.name, owner()))
        detail::remove_directory(left, holder_, name, *files, kept());
    }
  }

  /// Creates, locks and marks the temporary directory.
  [[gnu::noinline, gnu::cold]] void begin() {
    holder_ = detail::directory_handle(place_.holder());
    for (int attempt = 0; holder_ && attempt < 100; ++attempt) {
      auto const name = place_.sibling_name("partial-" + unlikely_suffix());
      if (::mkdirat(holder_.get(), name.c_str(), 0777) == 0) {
        made_ = detail::directory_handle(holder_, name);
        // Another writer may have removed it as abandoned before it was locked.
        bool const ours = made_ && (made_.lock() || errno != EWOULDBLOCK) && made_.is_at(holder_, name);
        if (!ours) {
          int const code = errno;
          ::unlinkat(holder_.get(), name.c_str(), AT_REMOVEDIR);
          errno = code;
          if (made_) continue;
          break;
        }
        temporary_ = name;
        mark_ = detail::directory_mark(made_, holder_, place_.name);
        if (!mark_) throw unwritable(target_ + "/" + detail::mark_name);
        if (mark_.owns(made_)) return;
        errno = EPERM;
        break;
      }
      if (errno != EEXIST) break;
    }
    throw error(
        {"'", target_, "' cannot be saved (", reason(), "); make room, check the permissions or choose another path"});
  }

  // A type-erased `fill` function, so that `put` is compiled once.
  struct filler {
    void (*call)(void const*, output_file&);
    void const* object;
  };
  template <class function> static filler filling(function const& fill) {
    return {[](void const* object, output_file& out) { (*static_cast<function const*>(object))(out); }, &fill};
  }

  [[gnu::noinline, gnu::cold]] void check_name(std::string_view name) const {
    if (temporary_.empty()) throw error({"'", target_, "' has no save under way; begin a new one"});
    if (!valid_file_name(name) || contents_.find(name))
      throw error({"'", name, "' cannot name a file in '", target_,
                   "'; use letters, digits, '.', '_', '-', and each name once"});
  }

  [[gnu::noinline, gnu::cold]] void put(std::string const& name, filler const& fill) {
    auto const shown = concat({target_, "/", name});
    try {
      if (!mark_.add({name, std::string(manifest_name)})) throw unwritable(shown);
      written_.push_back(name);
      output_file out(name, shown, made_.get());
      fill.call(fill.object, out);
      out.close();
      contents_.files.push_back({name, out.size(), out.crc()});
    } catch (...) {
      discard();
      throw;
    }
  }

  void replace(detail::old_directory const& old) {
    auto const left = move();
    temporary_.clear();
    bool const on_disk = holder_.sync();
    int const code = errno;
    if (!left.empty()) remove_old(old, left);
    made_ = {}, mark_ = {};
    if (!on_disk) throw not_on_disk(place_.holder(), code);
  }

  /// Removes the replaced directory: the one that was checked, or one that another writer has saved since.
  [[gnu::noinline, gnu::cold]] void remove_old(detail::old_directory const& old, std::string const& name) {
    detail::directory_handle const left(holder_, name);
    // The lock keeps other writers from removing it at the same time. Failing to get it does no harm.
    if (left) left.lock();
    if (left && old.directory && detail::same_file(left.status(), old.directory.status()))
      return detail::remove_directory(left, holder_, name, old.files, kept());
    if (auto const files = detail::marked_files(left, holder_, place_.name, owner()))
      return detail::remove_directory(left, holder_, name, *files, kept());
    // Another program has put it there since: keep it under another name.
    static_cast<void>(::renameat(holder_.get(), name.c_str(), holder_.get(), kept().c_str()));
  }

  /// Puts the new directory in place. Returns the old directory's new name; empty if there was none.
  [[gnu::noinline, gnu::cold]] std::string move() {
    auto const rename = [&](std::string const& from, std::string const& to) {
      return ::renameat(holder_.get(), from.c_str(), holder_.get(), to.c_str()) == 0;
    };
    if (!detail::status_at(holder_.get(), place_.name)) {
      if (!rename(temporary_, place_.name)) fail();
      return {};
    }
    if (way_ == exchange::yes && detail::exchange(holder_, temporary_, place_.name)) return temporary_;
    if (way_ == exchange::yes && errno != ENOSYS && errno != EINVAL) fail();
    if (detail::status_at(holder_.get(), previous_))
      throw error({"'", place_.directory + previous_, "' is in the way, and not of this library's making, so '",
                   target_, "' cannot be replaced; move it away"});
    if (!rename(place_.name, previous_)) fail();
    if (rename(temporary_, place_.name)) return previous_;
    int const code = errno;
    static_cast<void>(rename(previous_, place_.name));
    errno = code;
    fail();
  }

  [[noreturn]] void fail() const {
    throw error({"'", target_, "' cannot be put in place (", reason(),
                 "); choose another path and save again, what was there is untouched"});
  }

  [[gnu::noinline, gnu::cold]] void discard() noexcept try {
    mark_ = {}; // close it first: NFS renames an open file instead of removing it
    if (!temporary_.empty()) {
      written_.emplace_back(detail::mark_name);
      detail::remove_directory(made_, holder_, temporary_, written_, kept());
    }
    temporary_.clear();
    made_ = {};
  } catch (...) { temporary_.clear(); }
};

} // namespace constrain::io
