#pragma once

#include "constrain/io/directory_handle.hpp"

#include <algorithm>
#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::optional<struct stat> status_at(int directory, std::string const& name) {
  struct stat found {};
  if (::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return found;
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_handle::is_at(directory_handle const& parent,
                                                            std::string const& name) const {
  auto const there = status_at(parent.get(), name);
  return there && same_file(*there, status_);
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::string> directory_handle::text(std::string const& name,
                                                                                 bool single_link) const {
  constexpr std::size_t most = std::size_t{1} << 26;
  descriptor const file(::openat(get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  if (found.st_uid != owner() || (single_link && found.st_nlink != 1)) return std::nullopt;
  // One byte more than expected: if it is filled, the file is above the limit or has grown.
  std::string all(std::min(static_cast<std::size_t>(found.st_size), most) + 1, '\0');
  for (std::size_t size = 0; size < all.size();) {
    auto const got = ::read(file.get(), all.data() + size, all.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return all.resize(size), all;
    size += static_cast<std::size_t>(got);
  }
  return std::nullopt;
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_handle::remove(std::string const& name) const {
  auto const found = status_at(get(), name);
  if (!found || !S_ISREG(found->st_mode) || found->st_uid != owner()) return true;
  return ::unlinkat(get(), name.c_str(), 0) == 0 || errno == ENOENT;
}

} // namespace constrain::io::detail
