#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "constrain/io/directory_replace.hpp"
#include "constrain/io/failure.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/path.hpp"

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

  /// Makes the directories above `path`. Throws `error` when something other than a committed directory stands there.
  explicit directory_writer(std::string const& path, exchange way = exchange::yes)
      : place(path), target(place.directory + place.name), previous(place.sibling("previous")), way(way) {
    if (!place.directory.empty()) make_directories(place.directory);
    recover();
    detail::check_replaceable(target);
    remove_abandoned();
    begin();
  }
  directory_writer(directory_writer const&) = delete;
  directory_writer& operator=(directory_writer const&) = delete;
  ~directory_writer() { discard(); }

  /// Writes one file (its name: see `valid_file_name`); `fill` is called with its `output_file`.
  template <std::invocable<output_file&> function> void write(std::string_view name, function const& fill) {
    if (temporary.empty()) throw failure({"'", target, "' has no save under way; begin a new one"});
    if (!valid_file_name(name) || contents.find(name))
      throw failure({"'", name, "' cannot name a file in '", target,
                     "'; use letters, digits, '.', '_', '-', and each name once"});
    put(std::string(name), fill);
  }
  void write(std::string_view name, std::span<std::byte const> bytes) {
    write(name, [bytes](output_file& out) { out.write(bytes); });
  }
  void write(std::string_view name, std::string_view text) { write(name, std::as_bytes(std::span(text))); }

  /// Puts the new directory in place and removes the old one.
  void commit() {
    if (temporary.empty()) throw failure({"'", target, "' has no save under way; begin a new one"});
    put(std::string(manifest_name), [&](output_file& out) { out.write(contents.text()); });
    try {
      sync_directory(temporary);
      detail::check_replaceable(target);
      temporary = replace();
      // The old directory is locked while it is removed, so that no other writer takes it for abandoned meanwhile.
      lock = {};
      lock = detail::lock_directory(temporary, true);
      sync_directory(place.holder());
    } catch (...) {
      discard();
      throw;
    }
    discard();
  }

 private:
  split_path place;
  std::string target, previous, temporary;
  exchange way;
  descriptor lock;
  manifest contents;

  /// Undoes a move that the machine's stop cut in two.
  void recover() {
    if (!detail::exists(previous)) return;
    if (!detail::exists(target)) static_cast<void>(std::rename(previous.c_str(), target.c_str()));
    else detail::remove_directory(previous, kept());
  }

  void remove_abandoned() {
    auto const prefix = "." + place.name + ".partial-";
    for (auto const& name : directory_names(place.holder()).value_or(std::vector<std::string>{})) {
      if (!name.starts_with(prefix)) continue;
      auto const path = place.directory + name;
      if (auto const held = detail::lock_directory(path, false)) detail::remove_directory(path, kept());
    }
  }

  void begin() {
    for (int attempt = 0; attempt < 100; ++attempt) {
      auto const path = place.sibling("partial-" + unlikely_suffix());
      if (::mkdir(path.c_str(), 0777) == 0) {
        lock = detail::lock_directory(path, true);
        // Another writer may have taken it for abandoned before it was locked.
        if (detail::exists(path)) return void(temporary = path);
      } else if (errno != EEXIST) {
        break;
      }
    }
    throw failure({"'", target, "' cannot be saved (", reason(),
                   "); make room, check the permissions or choose another path"});
  }

  std::string kept() const { return target + ".kept-" + unlikely_suffix(); }

  template <class function> void put(std::string const& name, function const& fill) {
    try {
      output_file out(temporary + "/" + name, target + "/" + name);
      fill(out);
      out.close();
      contents.files.push_back({name, out.size(), out.crc()});
    } catch (...) {
      discard();
      throw;
    }
  }

  /// Returns the path where the old directory is now; empty when there was none.
  std::string replace() {
    if (!detail::exists(target)) {
      if (std::rename(temporary.c_str(), target.c_str()) != 0) fail();
      return {};
    }
    if (way == exchange::yes && detail::exchange(temporary, target)) return temporary;
    if (way == exchange::yes && errno != ENOSYS && errno != EINVAL) fail();
    if (std::rename(target.c_str(), previous.c_str()) != 0) fail();
    if (std::rename(temporary.c_str(), target.c_str()) == 0) return previous;
    int const code = errno;
    static_cast<void>(std::rename(previous.c_str(), target.c_str()));
    errno = code;
    fail();
  }

  [[noreturn]] void fail() const {
    throw failure({"'", target, "' cannot be put in place (", reason(),
                   "); choose another path and save again, what was there is untouched"});
  }

  void discard() noexcept try {
    if (!temporary.empty() && detail::exists(temporary)) detail::remove_directory(temporary, kept());
    temporary.clear();
    lock = {};
  } catch (...) {
    temporary.clear();
  }
};

} // namespace constrain::io
