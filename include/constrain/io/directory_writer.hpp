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
      : place(path), target(place.directory + place.name), previous(place.sibling_name("previous")), way(way) {
    check_not_worked_in(target);
    if (!place.directory.empty()) make_directories(place.directory);
    try {
      begin();
      recover();
      detail::check_replaceable(holder, place.name, owner(), target);
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
    if (!temporary.empty() && !mark.add(all)) throw unwritable(target + "/" + detail::mark_name);
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
    if (temporary.empty()) throw error({"'", target, "' has no save under way; begin a new one"});
    put(std::string(manifest_name), filling([&](output_file& out) { out.write(contents.text()); }));
    try {
      if (!made.sync()) throw not_on_disk(target);
      auto old = detail::check_replaceable(holder, place.name, owner(), target);
      detail::mark_replaced(old, holder, place.name);
      replace(old);
    } catch (...) {
      discard();
      throw;
    }
  }

private:
  split_path place;
  std::string target;              // for people
  std::string previous, temporary; // names in `holder`; no `temporary`: there is no save under way
  exchange way;
  detail::directory_handle holder, made; // locked from its making on: what is not was left by a writer that died
  detail::directory_mark mark;
  std::vector<std::string> written; // in `made`, the mark last
  manifest contents;

  /// Of what this process makes here: not always its own user, on a network's file system.
  uid_t owner() const { return made.owner(); }
  std::string kept() const { return concat({place.name, ".kept-", unlikely_suffix()}); }

  /// Undoes a move that the machine's stop cut in two. What is not ours is in nobody's way.
  [[gnu::noinline, gnu::cold]] void recover() {
    detail::directory_handle const left(holder, previous);
    auto const files = detail::marked_files(left, holder, place.name, owner());
    if (!files) return;
    bool const whole = detail::status_at(left.get(), std::string(manifest_name)).has_value();
    if (whole && !detail::status_at(holder.get(), place.name))
      static_cast<void>(::renameat(holder.get(), previous.c_str(), holder.get(), place.name.c_str()));
    else detail::remove_directory(left, holder, previous, *files, kept());
  }

  [[gnu::noinline, gnu::cold]] void remove_abandoned() {
    auto const prefix = place.sibling_name("partial-");
    for (auto const& name : holder.names()) {
      if (!name.starts_with(prefix)) continue;
      detail::directory_handle const left(holder, name);
      if (!left || left.owner() != owner() || !left.lock()) continue;
      if (auto const files = detail::marked_files(left, holder, place.name, owner()))
        detail::remove_directory(left, holder, name, *files, kept());
    }
  }

  [[gnu::noinline, gnu::cold]] void begin() {
    holder = detail::directory_handle(place.holder());
    for (int attempt = 0; holder && attempt < 100; ++attempt) {
      auto const name = place.sibling_name("partial-" + unlikely_suffix());
      if (::mkdirat(holder.get(), name.c_str(), 0777) == 0) {
        made = detail::directory_handle(holder, name);
        // Another writer may have taken it for abandoned before it was locked.
        bool const ours = made && (made.lock() || errno != EWOULDBLOCK) && made.is_at(holder, name);
        if (!ours) {
          int const code = errno;
          ::unlinkat(holder.get(), name.c_str(), AT_REMOVEDIR);
          errno = code;
          if (made) continue;
          break;
        }
        temporary = name;
        mark = detail::directory_mark(made, holder, place.name);
        if (!mark) throw unwritable(target + "/" + detail::mark_name);
        if (mark.owns(made)) return;
        errno = EPERM;
        break;
      }
      if (errno != EEXIST) break;
    }
    throw error(
        {"'", target, "' cannot be saved (", reason(), "); make room, check the permissions or choose another path"});
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
    if (temporary.empty()) throw error({"'", target, "' has no save under way; begin a new one"});
    if (!valid_file_name(name) || contents.find(name))
      throw error({"'", name, "' cannot name a file in '", target,
                   "'; use letters, digits, '.', '_', '-', and each name once"});
  }

  [[gnu::noinline, gnu::cold]] void put(std::string const& name, filler const& fill) {
    auto const shown = concat({target, "/", name});
    try {
      if (!mark.add({name, std::string(manifest_name)})) throw unwritable(shown);
      written.push_back(name);
      output_file out(name, shown, made.get());
      fill.call(fill.object, out);
      out.close();
      contents.files.push_back({name, out.size(), out.crc()});
    } catch (...) {
      discard();
      throw;
    }
  }

  void replace(detail::old_directory const& old) {
    auto const left = move();
    temporary.clear();
    bool const on_disk = holder.sync();
    int const code = errno;
    if (!left.empty()) remove_old(old, left);
    made = {}, mark = {};
    if (!on_disk) throw not_on_disk(place.holder(), code);
  }

  /// Removes what was replaced: the directory that was checked, or another writer's that came in between.
  [[gnu::noinline, gnu::cold]] void remove_old(detail::old_directory const& old, std::string const& name) {
    detail::directory_handle const left(holder, name);
    // So that no other writer takes it for abandoned meanwhile; it may as well.
    if (left) left.lock();
    if (left && old.directory && detail::same_file(left.status(), old.directory.status()))
      return detail::remove_directory(left, holder, name, old.files, kept());
    if (auto const files = detail::marked_files(left, holder, place.name, owner()))
      return detail::remove_directory(left, holder, name, *files, kept());
    // Somebody else has put it there since.
    static_cast<void>(::renameat(holder.get(), name.c_str(), holder.get(), kept().c_str()));
  }

  /// Returns the name of the old directory now; empty when there was none.
  [[gnu::noinline, gnu::cold]] std::string move() {
    auto const rename = [&](std::string const& from, std::string const& to) {
      return ::renameat(holder.get(), from.c_str(), holder.get(), to.c_str()) == 0;
    };
    if (!detail::status_at(holder.get(), place.name)) {
      if (!rename(temporary, place.name)) fail();
      return {};
    }
    if (way == exchange::yes && detail::exchange(holder, temporary, place.name)) return temporary;
    if (way == exchange::yes && errno != ENOSYS && errno != EINVAL) fail();
    if (detail::status_at(holder.get(), previous))
      throw error({"'", place.directory + previous, "' is in the way, and not of this library's making, so '", target,
                   "' cannot be replaced; move it away"});
    if (!rename(place.name, previous)) fail();
    if (rename(temporary, place.name)) return previous;
    int const code = errno;
    static_cast<void>(rename(previous, place.name));
    errno = code;
    fail();
  }

  [[noreturn]] void fail() const {
    throw error({"'", target, "' cannot be put in place (", reason(),
                 "); choose another path and save again, what was there is untouched"});
  }

  [[gnu::noinline, gnu::cold]] void discard() noexcept try {
    mark = {}; // on a network's file system, an open file leaves another name behind
    if (!temporary.empty()) {
      written.emplace_back(detail::mark_name);
      detail::remove_directory(made, holder, temporary, written, kept());
    }
    temporary.clear();
    made = {};
  } catch (...) { temporary.clear(); }
};

} // namespace constrain::io
