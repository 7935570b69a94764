#pragma once

#include "constrain/io/directory_writer.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE directory_writer::directory_writer(std::string const& path, exchange mode)
    : split_target_(target_of(path)), target_(split_target_.directory + split_target_.name),
      previous_(split_target_.sibling_name("previous")), exchange_(mode) {
  refuse_working_directory(target_);
  if (!split_target_.directory.empty()) make_directories(split_target_.directory);
  try {
    begin();
    recover();
    static_cast<void>(split_path(path)); // throws for a link that is still broken
    detail::check_replaceable(parent_, split_target_.name, owner(), target_);
    detail::remove_abandoned(parent_, split_target_.name, owner());
  } catch (...) {
    discard();
    throw;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE split_path directory_writer::target_of(std::string const& path) {
  auto const missing = missing_path(path);
  return missing && detail::exists(missing->sibling("previous")) ? *missing : split_path(path);
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::announce(std::vector<std::string> const& names) {
  std::vector<std::string> listed{std::string(manifest_name)};
  for (auto const& name : names)
    if (valid_file_name(name)) listed.push_back(name);
  if (!temporary_.empty() && !mark_.add(listed)) throw unwritable(concat({target_, "/", detail::mark_name}));
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::commit() {
  if (temporary_.empty()) throw error({"'", target_, "' has no save in progress; begin a new one"});
  put(std::string(manifest_name), make_filler([&](output_file& out) { out.write(text_bytes(contents_.text())); }));
  try {
    if (!temporary_directory_.sync()) throw not_on_disk(target_);
    auto old = detail::check_replaceable(parent_, split_target_.name, owner(), target_);
    detail::mark_replaced(old, parent_, split_target_.name);
    // With a new mark, the old directory can make '.<name>.previous' unneeded (`remove_replaced`).
    remove_unneeded_previous();
    replace(old);
  } catch (...) {
    discard();
    throw;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_writer::is_restorable(detail::directory_handle const& previous) const {
  return detail::marked_files(previous, parent_, split_target_.name, owner()) &&
         detail::status_at(previous.get(), std::string(manifest_name));
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::recover() {
  detail::directory_handle const previous(parent_, previous_);
  if (!is_restorable(previous)) return remove_previous(previous);
  // The rename replaces an empty directory. It fails, and keeps both, if anything else has the target's name.
  if (::renameat(parent_.get(), previous_.c_str(), parent_.get(), split_target_.name.c_str()) == 0) return;
  remove_unneeded_previous();
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::remove_unneeded_previous() {
  try {
    detail::remove_replaced(parent_, split_target_.name, owner(), target_);
  } catch (error const&) {
    // The target's manifest cannot be read: `check_replaceable` refuses this target.
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::begin() {
  parent_ = detail::directory_handle(split_target_.parent());
  // The name may exist, or another writer may remove the new directory. Both are rare, so 100 attempts are ample.
  for (int attempt = 0; parent_ && attempt < 100; ++attempt) {
    auto const name = split_target_.sibling_name(concat({"partial-", unlikely_suffix()}));
    if (::mkdirat(parent_.get(), name.c_str(), 0777) == 0) {
      temporary_directory_ = detail::directory_handle(parent_, name);
      // Before this writer locked the directory, another writer may have removed it as abandoned.
      bool const is_usable = temporary_directory_ && (temporary_directory_.lock() || errno != EWOULDBLOCK) &&
                             temporary_directory_.is_at(parent_, name);
      if (!is_usable) {
        int const code = errno;
        ::unlinkat(parent_.get(), name.c_str(), AT_REMOVEDIR);
        errno = code;
        if (temporary_directory_) continue;
        break;
      }
      temporary_ = name;
      mark_ = detail::directory_mark(temporary_directory_, parent_, split_target_.name);
      if (!mark_) throw unwritable(concat({target_, "/", detail::mark_name}));
      if (mark_.has_owner_of(temporary_directory_)) return;
      errno = EPERM;
      break;
    }
    if (errno != EEXIST) break;
  }
  throw detail::not_saved(target_);
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::check_name(std::string_view name) const {
  if (temporary_.empty()) throw error({"'", target_, "' has no save in progress; begin a new one"});
  if (!valid_file_name(name) || contents_.find(name))
    throw error({"'", name, "' cannot name a file in '", target_, "'; give a new name, other than ", manifest_name,
                 ", of 1 to 128 letters, digits, '.', '_' and '-' that does not begin with '.'"});
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::put(std::string const& name, filler const& fill) {
  auto const display_name = concat({target_, "/", name});
  try {
    if (!mark_.add({name, std::string(manifest_name)})) throw unwritable(display_name);
    written_names_.push_back(std::string(name));
    output_file out(name, display_name, temporary_directory_.get());
    fill.call(fill.object, out);
    out.close();
    contents_.files.push_back({name, out.size(), out.crc()});
  } catch (...) {
    discard();
    throw;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::replace(detail::old_directory const& old) {
  auto const replaced_name = move();
  temporary_.clear();
  bool const on_disk = parent_.sync();
  int const code = errno;
  if (on_disk && !replaced_name.empty()) {
    remove_old(old, replaced_name);
    if (replaced_name != previous_) remove_previous(detail::directory_handle(parent_, previous_));
  }
  temporary_directory_ = {}, mark_ = {};
  if (!on_disk) throw not_on_disk(split_target_.parent(), code);
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::remove_old(detail::old_directory const& old,
                                                                 std::string const& name) {
  detail::directory_handle const replaced(parent_, name);
  // The lock keeps other writers from removing the directory at the same time. Without the lock, two writers may remove
  // the same files, which is harmless.
  if (replaced) replaced.lock();
  if (replaced && old.directory && detail::same_file(replaced.status(), old.directory.status()))
    return detail::remove_directory(replaced, parent_, name, old.files, split_target_.name);
  if (auto const files = detail::marked_files(replaced, parent_, split_target_.name, owner()))
    return detail::remove_directory(replaced, parent_, name, *files, split_target_.name);
  // Another program has created this directory since the check: keep it under another name.
  static_cast<void>(
      ::renameat(parent_.get(), name.c_str(), parent_.get(), detail::kept_name(split_target_.name).c_str()));
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::remove_previous(detail::directory_handle const& previous) {
  if (auto const files = detail::marked_files(previous, parent_, split_target_.name, owner()))
    detail::remove_directory(previous, parent_, previous_, *files, split_target_.name);
}

[[gnu::cold]] CONSTRAIN_INLINE std::string directory_writer::move() {
  auto const rename = [&](std::string const& old_name, std::string const& new_name) {
    return ::renameat(parent_.get(), old_name.c_str(), parent_.get(), new_name.c_str()) == 0;
  };
  if (!detail::status_at(parent_.get(), split_target_.name)) {
    if (!rename(temporary_, split_target_.name)) fail();
    return {};
  }
  if (exchange_ == exchange::yes && detail::exchange(parent_, temporary_, split_target_.name)) return temporary_;
  if (exchange_ == exchange::yes && errno != ENOSYS && errno != EINVAL) fail();
  // A '.<name>.previous' that the next save can restore stays until the new directory is in place.
  auto const can_restore = [&] { return is_restorable(detail::directory_handle(parent_, previous_)); };
  auto const old_name = can_restore() ? detail::kept_name(split_target_.name) : previous_;
  if (old_name == previous_ && detail::status_at(parent_.get(), previous_))
    throw error({"'", target_, "' cannot be replaced, because '", split_target_.directory + previous_,
                 "' exists; move the latter away"});
  if (!rename(split_target_.name, old_name)) fail();
  if (rename(temporary_, split_target_.name)) return old_name;
  int const code = errno;
  bool const restored = rename(old_name, split_target_.name);
  bool const restorable = !restored && old_name == previous_ && can_restore();
  errno = code;
  if (restored) fail();
  auto const location = concat({"the old content is in '", split_target_.directory, old_name});
  if (restorable) fail(concat({location, "', from which the next save to '", target_, "' restores it"}));
  fail(concat({location, "', from which no save restores it; rename that directory to '", target_, "'"}));
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_writer::fail(std::string const& old_content) const {
  throw error(
      {"'", target_, "' cannot be put in place (", reason(), "); choose another path and save again; ", old_content});
}

} // namespace constrain::io
