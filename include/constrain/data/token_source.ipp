#pragma once

#include "constrain/data/token_source.hpp"

#include <cerrno>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::data {

CONSTRAIN_INLINE void token_file::read(std::int64_t first, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    auto const at = first + static_cast<std::int64_t>(done);
    auto const got = ::pread(file_.get(), bytes.data() + done, std::min(bytes.size() - done, std::size_t{1} << 30), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw error({"the token file '", path_, "' cannot be read (", io::reason(), "); check the file and its disk"});
    if (got == 0) {
      struct stat now {};
      auto const left = ::fstat(file_.get(), &now) == 0 ? now.st_size : at;
      throw error({"the token file '", path_, "' was truncated while in use: it had ", counted(size(), "byte"),
                   " and has ", left, " now; ", advice});
    }
    done += static_cast<std::size_t>(got);
  }
}

CONSTRAIN_INLINE void token_file::verify() const {
  struct stat now {};
  if (::fstat(file_.get(), &now) != 0 || now.st_size > seen_.st_size) return;
  constrain::detail::lock_guard const only_one(verifying_);
  if (now.st_mtim.tv_sec == seen_.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec) return;
  if (scan([](auto) {}) != sum_) throw changed();
  seen_.st_mtim = now.st_mtim;
}

CONSTRAIN_INLINE void token_source::visit(std::int64_t first, std::int64_t count,
                                          function_ref<void(std::span<std::byte const>)> visit) const {
  if (!file_) return visit(view_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  std::byte buffer[1 << 14];
  for (std::int64_t done = 0; done < count; done += sizeof buffer) {
    auto const bytes = static_cast<std::size_t>(std::min<std::int64_t>(sizeof buffer, count - done));
    file_->read(file_->begin() + first + done, {static_cast<std::byte*>(buffer), bytes});
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
