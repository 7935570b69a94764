#pragma once

#include "constrain/io/atomic_file.hpp"

#include "constrain/base/error.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE void atomic_file::commit() {
  if (temporary_.empty()) throw error({"'", path(), "' has no write in progress; begin a new one"});
  file_.close();
  check_target();
  if (::renameat(parent_.get(), temporary_.c_str(), parent_.get(), target_.name.c_str()) != 0) {
    error const failure({"'", path(), "' cannot be put in place (", reason(), "); choose another path and save again"});
    discard();
    throw failure;
  }
  temporary_.clear();
  if (!parent_.sync()) throw not_on_disk(target_.parent());
}

[[gnu::cold]] CONSTRAIN_INLINE std::string const& atomic_file::checked(std::string const& path, links link_policy) {
  // lstat("link/") would follow the link.
  auto const end = path.find_last_not_of('/') + 1;
  auto const status = detail::status_at(AT_FDCWD, std::string(system_path(path), end));
  if (link_policy == links::refused && status && S_ISLNK(status->st_mode))
    throw error({"'", path, "' cannot be written (it is a symbolic link); remove it or choose another path"});
  if (path.ends_with('/'))
    throw error(
        {"'", path, "' cannot be written (it ends with '/', like a directory's path); end it with a file's name"});
  return path;
}

[[gnu::cold]] CONSTRAIN_INLINE detail::directory_handle atomic_file::open_parent() const {
  detail::directory_handle opened(target_.parent());
  if (!opened) throw unwritable(path());
  return opened;
}

[[gnu::cold]] CONSTRAIN_INLINE void atomic_file::check_target() {
  auto const status = detail::status_at(parent_.get(), target_.name);
  if (!status || S_ISREG(status->st_mode)) return;
  discard();
  throw error({"'", path(), "' cannot be written (it is not a regular file); remove it or choose another path"});
}

[[gnu::cold]] CONSTRAIN_INLINE void atomic_file::discard() noexcept {
  if (temporary_.empty()) return;
  auto const status = detail::status_at(parent_.get(), temporary_);
  if (status && temporary_status_ && detail::same_file(*status, *temporary_status_))
    ::unlinkat(parent_.get(), temporary_.c_str(), 0);
  temporary_.clear();
}

} // namespace constrain::io
