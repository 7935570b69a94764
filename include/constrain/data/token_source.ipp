#pragma once

#include "constrain/data/token_source.hpp"

#include <cerrno>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::data {

CONSTRAIN_INLINE void token_file::read(std::int64_t first, std::span<std::byte> bytes) const {
  std::size_t completed = 0;
  while (completed < bytes.size()) {
    auto const offset = first + static_cast<std::int64_t>(completed);
    auto const bytes_read = ::pread(file_.get(), bytes.data() + completed,
                                    std::min(bytes.size() - completed, std::size_t{1} << 30), offset);
    if (bytes_read < 0 && errno == EINTR) continue;
    if (bytes_read < 0)
      throw error({"the token file '", path_, "' cannot be read (", io::reason(), "); check the file and its disk"});
    if (bytes_read == 0) {
      struct stat status {};
      auto const current_size = ::fstat(file_.get(), &status) == 0 ? status.st_size : offset;
      throw error({"the token file '", path_, "' was truncated while in use: it had ", counted(size(), "byte"),
                   " and has ", current_size, " now; ", advice});
    }
    completed += static_cast<std::size_t>(bytes_read);
  }
}

CONSTRAIN_INLINE void token_file::verify() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || status.st_size > status_.st_size) return;
  constrain::detail::lock_guard const lock(verify_mutex_);
  auto const same = [](timespec a, timespec b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; };
  // Programs such as touch can set the modification time, but not the status change time.
  if (same(status.st_mtim, status_.st_mtim) && same(status.st_ctim, status_.st_ctim)) return;
  if (scan([](auto) {}) != checksum_) throw changed();
  status_.st_mtim = status.st_mtim, status_.st_ctim = status.st_ctim;
}

CONSTRAIN_INLINE void token_source::visit(std::int64_t first, std::int64_t count,
                                          function_ref<void(std::span<std::byte const>)> visit) const {
  if (!file_) return visit(view_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  std::byte buffer[1 << 14];
  for (std::int64_t visited = 0; visited < count; visited += sizeof buffer) {
    auto const bytes = static_cast<std::size_t>(std::min<std::int64_t>(sizeof buffer, count - visited));
    file_->read(file_->begin() + first + visited, {static_cast<std::byte*>(buffer), bytes});
    visit({static_cast<std::byte const*>(buffer), bytes});
  }
  file_->verify();
}

CONSTRAIN_INLINE error token_source::changed() const {
  return file_ ? file_->changed()
               : error({"the storage of a corpus was changed while in use: a token is now larger than the former "
                        "maximum; do not change the storage while the corpus exists"});
}

} // namespace constrain::data
