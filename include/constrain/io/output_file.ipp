#pragma once

#include "constrain/io/output_file.hpp"

#include <cerrno>
#include <unistd.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE error unwritable(std::string const& display_name) {
  return error({"'", display_name, "' cannot be written (", reason(), "); ", remedy(),
                " or choose another path, and save again; the old content is unchanged"});
}

[[gnu::cold]] CONSTRAIN_INLINE output_file::output_file(std::string const& path, std::string display_name,
                                                        int base_directory)
    : display_name_(std::move(display_name)),
      file_(::openat(base_directory, system_path(path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!file_) fail();
  buffer_.reserve(buffer_bytes);
}

CONSTRAIN_INLINE void output_file::write(std::span<std::byte const> bytes) {
  length_ += bytes.size();
  checksum_.update(bytes);
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() >= buffer_bytes) put(bytes);
  else buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

[[gnu::cold]] CONSTRAIN_INLINE void output_file::close() {
  flush();
  if (!sync_to_disk(file_) || (::close(file_.release()) != 0 && errno != EINTR)) error_ = errno, fail();
}

[[gnu::cold]] CONSTRAIN_INLINE void output_file::flush() {
  put({std::as_const(buffer_).data(), buffer_.size()});
  buffer_.clear();
}

} // namespace constrain::io
