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

/// A directory of files that appears whole or not at all:
///
///     directory_writer w("run/checkpoint");
///     w.write("state.json", text);
///     w.write("weights.safetensors", [&](output_file& out) { write_safetensors(out, tensors); });
///     w.commit();
///
/// Everything is written into a hidden sibling, the manifest (lengths, checksums) last, brought to disk, and put in the
/// target's place in one move. Until then, whatever fails, the target stays as it was and nothing else is left behind.
class directory_writer {
public:
  /// Whether the file system is asked to exchange two names at once; `no` is for tests of the other way.
  enum class exchange { yes, no };

  /// Makes the directories above `path`; a path that is a link is followed. Throws `error` when something other than a
  /// committed directory of this user stands there.
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

  /// Names of files to come. Each of them is told the mark before it is created; all at once that takes the disk less.
  [[gnu::noinline, gnu::cold]] void announce(std::initializer_list<std::string_view> names) {
    std::vector<std::string> all{std::string(manifest_name)};
    for (auto const name : names)
      if (valid_file_name(name)) all.emplace_back(name);
    if (!temporary_.empty() && !mark_.add(all)) throw unwritable(target_ + "/" + detail::mark_name);
  }

  /// Writes one file (its name: see `valid_file_name`); `fill` is called with its `output_file`.
  template <std::invocable<output_file&> function> void write(std::string_view name, function const& fill) {
    check_name(name);
    put(std::string(name), filling(fill));
  }
  void write(std::string_view name, std::span<std::byte const> bytes) {
    write(name, [bytes](output_file& out) { out.write(bytes); });
  }
  void write(std::string_view name, std::string_view text) { write(name, text_bytes(text)); }

  /// Puts the new directory in place and removes the old one.
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
  std::string target_;               // for people
  std::string previous_, temporary_; // names in `holder`; no `temporary`: there is no save under way
  exchange way_;
  detail::directory_handle holder_, made_; // locked from its making on: what is not was left by a writer that died
  detail::directory_mark mark_;
  std::vector<std::string> written_; // in `made`, the mark last
  manifest contents_;

  /// Of what this process makes here: not always its own user, on a network's file system.
  uid_t owner() const { return made_.owner(); }
  std::string kept() const { return concat({place_.name, ".kept-", unlikely_suffix()}); }

  /// Undoes a move that the machine's stop cut in two. What is not ours is in nobody's way.
  [[gnu::noinline, gnu::cold]] void recover() {
    detail::directory_handle const left(holder_, previous_);
    auto const files = detail::marked_files(left, holder_, place_.name, owner());
    if (!files) return;
    bool const whole = detail::status_at(left.get(), std::string(manifest_name)).has_value();
    if (whole && !detail::status_at(holder_.get(), place_.name))
      static_cast<void>(::renameat(holder_.get(), previous_.c_str(), holder_.get(), place_.name.c_str()));
    else detail::remove_directory(left, holder_, previous_, *files, kept());
  }

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

  [[gnu::noinline, gnu::cold]] void begin() {
    holder_ = detail::directory_handle(place_.holder());
    for (int attempt = 0; holder_ && attempt < 100; ++attempt) {
      auto const name = place_.sibling_name("partial-" + unlikely_suffix());
      if (::mkdirat(holder_.get(), name.c_str(), 0777) == 0) {
        made_ = detail::directory_handle(holder_, name);
        // Another writer may have taken it for abandoned before it was locked.
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

  // Whatever fills a file, without its type: `put` is compiled once.
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

  /// Removes what was replaced: the directory that was checked, or another writer's that came in between.
  [[gnu::noinline, gnu::cold]] void remove_old(detail::old_directory const& old, std::string const& name) {
    detail::directory_handle const left(holder_, name);
    // So that no other writer takes it for abandoned meanwhile; it may as well.
    if (left) left.lock();
    if (left && old.directory && detail::same_file(left.status(), old.directory.status()))
      return detail::remove_directory(left, holder_, name, old.files, kept());
    if (auto const files = detail::marked_files(left, holder_, place_.name, owner()))
      return detail::remove_directory(left, holder_, name, *files, kept());
    // Somebody else has put it there since.
    static_cast<void>(::renameat(holder_.get(), name.c_str(), holder_.get(), kept().c_str()));
  }

  /// Returns the name of the old directory now; empty when there was none.
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
    mark_ = {}; // on a network's file system, an open file leaves another name behind
    if (!temporary_.empty()) {
      written_.emplace_back(detail::mark_name);
      detail::remove_directory(made_, holder_, temporary_, written_, kept());
    }
    temporary_.clear();
    made_ = {};
  } catch (...) { temporary_.clear(); }
};

} // namespace constrain::io
