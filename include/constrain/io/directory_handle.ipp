#pragma once

#include "constrain/io/directory_handle.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::optional<struct stat> status_at(int directory, std::string const& name) {
  struct stat status {};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return status;
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_handle::is_at(directory_handle const& parent,
                                                            std::string const& name) const {
  auto const current = status_at(parent.get(), name);
  return current && same_file(*current, status_);
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::string> directory_handle::text(std::string const& name,
                                                                                 bool single_link) const {
  constexpr std::size_t maximum_bytes = std::size_t{1} << 26;
  descriptor const file(::openat(get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat file_status {};
  if (!file || ::fstat(file.get(), &file_status) != 0 || !S_ISREG(file_status.st_mode)) return std::nullopt;
  if (file_status.st_uid != owner() || (single_link && file_status.st_nlink != 1)) return std::nullopt;
  // One byte more than expected: if it is filled, the file is above the limit or has grown.
  std::string content(std::min(static_cast<std::size_t>(file_status.st_size), maximum_bytes) + 1, '\0');
  for (std::size_t size = 0; size < content.size();) {
    auto const bytes_read = ::read(file.get(), content.data() + size, content.size() - size);
    if (bytes_read < 0 && errno == EINTR) continue;
    if (bytes_read < 0) return std::nullopt;
    if (bytes_read == 0) return content.resize(size), content;
    size += static_cast<std::size_t>(bytes_read);
  }
  return std::nullopt;
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_handle::remove(std::string const& name) const {
  auto const file_status = status_at(get(), name);
  if (!file_status || !S_ISREG(file_status->st_mode) || file_status->st_uid != owner()) return true;
  return ::unlinkat(get(), name.c_str(), 0) == 0 || errno == ENOENT;
}

} // namespace constrain::io::detail
