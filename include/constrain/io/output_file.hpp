#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/text_bytes.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The error for a file that cannot be written, with the reason from `errno`.
inline error unwritable(std::string const& shown) {
  return error({"'", shown, "' cannot be written (", reason(),
                "); make room or choose another path and save again, what was there before is untouched"});
}

/// A new file, written sequentially through a 64 KiB buffer, with its size and CRC-32C. Throws `error` for every
/// failure, a full disk included.
class output_file {
public:
  /// Creates `path`, which must not exist; a relative path starts at `from`, an open directory. `shown`: the file's
  /// name in errors.
  output_file(std::string const& path, std::string shown, int from = AT_FDCWD)
      : shown_(std::move(shown)),
        file_(::openat(from, system_path(path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (!file_) fail();
    gathered_.reserve(gathered_bytes);
  }

  /// Appends bytes or text.
  void write(std::span<std::byte const> bytes) {
    length_ += bytes.size();
    checksum_.update(bytes);
    if (gathered_.size() + bytes.size() > gathered_bytes) flush();
    if (bytes.size() >= gathered_bytes) put(bytes);
    else gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  }
  void write(std::string_view text) { write(text_bytes(text)); }

  /// Writes the rest, syncs the file to disk and closes it.
  void close() {
    flush();
    if (::fsync(file_.get()) != 0) fail();
    if (::close(file_.release()) != 0) fail();
  }

  /// Size and CRC-32C of all that was written.
  std::uint64_t size() const { return length_; }
  std::uint32_t crc() const { return checksum_.value(); }

private:
  static constexpr std::size_t gathered_bytes = std::size_t{1} << 16;

  std::string shown_;
  descriptor file_;
  std::vector<std::byte> gathered_;
  std::uint64_t length_ = 0;
  crc32c checksum_;

  void flush() {
    put(gathered_);
    gathered_.clear();
  }

  void put(std::span<std::byte const> bytes) {
    if (!write_all(file_, {reinterpret_cast<char const*>(bytes.data()), bytes.size()})) fail();
  }

  [[noreturn]] void fail() const { throw unwritable(shown_); }
};

} // namespace constrain::io
