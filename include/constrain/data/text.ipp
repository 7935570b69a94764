#pragma once

#include "constrain/data/text.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/data/memory_check.hpp"
#include "constrain/data/text_files.hpp"
#include "constrain/io/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

[[gnu::cold]] CONSTRAIN_INLINE void append_file(std::string const& path, std::size_t maximum, std::string& bytes) {
  struct stat status {};
  auto const file = io::open_file(path, "the text", &status);
  auto const added = std::min(static_cast<std::size_t>(status.st_size), maximum - std::min(maximum, bytes.size()));
  check_memory(concat({"the text up to the end of '", path, "'"}), static_cast<std::int64_t>(bytes.size() + added));
  // One byte more than the file has, so that the read that finds the end of the file needs no larger buffer. The size
  // in the file's status is only a hint: files in /proc report 0, and a file may still be growing.
  constexpr std::size_t small_read = std::size_t{1} << 16;
  std::size_t read_size = status.st_size > 0 ? static_cast<std::size_t>(status.st_size) + 1 : small_read;
  bytes.reserve(bytes.size() + added + 1);
  while (bytes.size() < maximum) {
    auto const begin = bytes.size();
    bytes.resize(begin + std::min({read_size, maximum - begin, std::size_t{1} << 30}));
    auto const bytes_read = ::read(file.get(), bytes.data() + begin, bytes.size() - begin);
    int const code = errno;
    bytes.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(bytes_read, 0)));
    if (bytes_read < 0 && code == EINTR) continue;
    if (bytes_read < 0 && code == EAGAIN)
      throw error({"the text '", path,
                   "' is a system file that has no data to read now; copy its content into a regular file"});
    if (bytes_read < 0)
      throw error({"the text '", path, "' cannot be read (", io::reason(code), "); check the file and its disk"});
    if (bytes_read == 0) return;
    read_size -= static_cast<std::size_t>(bytes_read);
    if (read_size == 0) read_size = small_read;
  }
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE corpus text(std::string const& path, text_options const& options) {
  if (options.maximum_bytes < 1)
    throw error({"text_options: .maximum_bytes is ", options.maximum_bytes, "; give at least 1"});
  auto const maximum = static_cast<std::size_t>(options.maximum_bytes);
  std::string bytes;
  struct stat status {};
  if (::stat(io::system_path(path), &status) == 0 && S_ISDIR(status.st_mode)) {
    auto const files = detail::file_tree::list(path, options.extensions);
    if (files.empty())
      throw error({"the directory '", path, "' has no visible files",
                   options.extensions.empty()
                       ? "; give one that has some"
                       : " with the given extensions; give one that has some, or other extensions"});
    for (auto const& file : files)
      if (bytes.size() < maximum) detail::append_file(concat({path, "/", file}), maximum, bytes);
  } else {
    detail::append_file(path, maximum, bytes);
  }
  if (bytes.empty()) throw error({"the text '", path, "' is empty; give a file or directory that contains text"});
  return corpus::from_bytes(std::move(bytes));
}

} // namespace constrain::data
