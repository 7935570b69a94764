#pragma once

#include "constrain/base/error.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/text_bytes.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The error for a file that cannot be written, with the reason from `errno`. `display_name`: the file's name in the
/// error. The error says that the old content is unchanged, so throw it only before the old content is replaced.
error unwritable(std::string const& display_name);

/// A new file, written sequentially through a 64 KiB buffer. Its size and CRC-32C are computed while it is written.
/// Throws `error` for every failure, such as a full disk.
class output_file {
public:
  /// Creates `path`, which must not exist, with mode 0666 less the umask. A relative path is relative to
  /// `base_directory`, an open directory (AT_FDCWD: the working directory). `display_name`: the file's name in errors.
  output_file(std::string const& path, std::string display_name, int base_directory = AT_FDCWD);

  /// Appends bytes or text. Must not be called after `close`.
  void write(std::span<std::byte const> bytes);
  void write(std::string_view text) { write(text_bytes(text)); }

  /// Writes the buffered bytes, syncs the file to disk and closes it. Call `close` once. Without this call, buffered
  /// bytes are lost and the file remains.
  void close();

  /// The size and CRC-32C of all bytes passed to `write`.
  std::uint64_t size() const { return length_; }
  std::uint32_t crc() const { return checksum_.value(); }

private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16;

  std::string display_name_;
  descriptor file_;
  std::vector<std::byte> buffer_;
  std::uint64_t length_ = 0;
  crc32c checksum_;
  int error_ = 0; // `errno` of the first failed write (which may have written some bytes) or of `close`; 0: none

  /// Writes the buffered bytes and empties the buffer.
  void flush();

  /// Writes bytes to the file, bypassing the buffer. After a failed write, all later ones fail with the same reason.
  void put(std::span<std::byte const> bytes) {
    if (error_ == 0 && !write_all(file_, {reinterpret_cast<char const*>(bytes.data()), bytes.size()})) error_ = errno;
    if (error_ != 0) errno = error_, fail();
  }

  /// Throws the error for a failed write, with the reason from `errno`.
  [[noreturn]] void fail() const { throw unwritable(display_name_); }
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/output_file.ipp"
#endif
