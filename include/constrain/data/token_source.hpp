#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/function_ref.hpp"
#include "constrain/base/mutex.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/descriptor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// A file of tokens that is read during a run. The file is read, not mapped: if another process truncated a mapped
/// file, this process would crash. The file stays open, so during the run it may be renamed or removed, or another file
/// may be renamed to its path.
class token_file {
public:
  /// Opens the file. Throws `error` if `path` is not a readable regular file.
  explicit token_file(std::string path)
      : path_(std::move(path)), file_(io::open_file(path_, "the token file", &status_)) {}

  /// The path that was given to the constructor.
  std::string const& path() const { return path_; }
  /// The size of the file in bytes when it was opened.
  std::int64_t size() const { return status_.st_size; }
  /// The byte offset of the first token; 0 before `remember`.
  std::int64_t begin() const { return begin_; }

  /// Fills `bytes` with the bytes of the file from offset `first` on (0: the beginning of the file); these must be
  /// within `size()`. Throws `error` if the file has become too short or cannot be read.
  void read(std::int64_t first, std::span<std::byte> bytes) const;

  /// Makes `begin` the offset of the first token: the content is the bytes from `begin` to `size()`. `begin` must be
  /// from 0 to `size()`. Calls `visit(bytes)` for consecutive parts of the content; the sizes of all parts but the last
  /// are multiples of 4. `bytes` is valid during the call. Returns the content's CRC-32C and stores it for `verify`.
  /// Throws as `read` does.
  template <class visitor> std::uint32_t remember(std::int64_t begin, visitor const& visit) {
    begin_ = begin;
    return checksum_ = scan(visit);
  }
  /// Throws `error` if the content has changed since `remember`. Reads the content again only if the modification time
  /// or the status change time has changed; renaming or removing the file changes the latter. A file that has grown is
  /// not checked, because appending is allowed. Several threads may call this function and `read` at the same time.
  /// Also throws as `read` does.
  void verify() const;
  /// The error for changed content.
  error changed() const { return error({"the token file '", path_, "' was changed while in use; ", advice}); }

private:
  static constexpr char const* advice = "do not change the file during a run; write new tokens to another file";

  std::string path_;
  mutable struct stat status_ {}; // before `file_`, whose initializer writes it
  io::descriptor file_;
  std::int64_t begin_ = 0;
  std::uint32_t checksum_ = 0;
  mutable constrain::detail::mutex verify_mutex_{}; // the training thread and the prefetch thread may both verify

  /// Calls `visit(bytes)` as `remember` does. Returns the CRC-32C of the content.
  template <class visitor> std::uint32_t scan(visitor const& visit) const {
    constexpr std::int64_t chunk_size = 1 << 18;
    io::crc32c check;
    std::unique_ptr<std::byte[]> const buffer(new std::byte[chunk_size]);
    for (auto offset = begin_; offset < size(); offset += chunk_size) {
      std::span<std::byte> const chunk(buffer.get(), static_cast<std::size_t>(std::min(chunk_size, size() - offset)));
      read(offset, chunk);
      check.update(chunk);
      visit(std::span<std::byte const>(chunk));
    }
    return check.value();
  }
};

/// The bytes of a corpus's tokens, in memory or in a file.
class token_source {
public:
  /// Bytes in memory; `storage` keeps them alive (null: the caller does).
  token_source(std::shared_ptr<void const> storage, std::span<std::byte const> view)
      : storage_(std::move(storage)), view_(view) {}
  /// The bytes of a file from `file->begin()` on. `file` must not be null; call its `remember` first.
  explicit token_source(std::shared_ptr<token_file const> file) : file_(std::move(file)) {}

  /// The size of all tokens in bytes.
  std::int64_t size() const { return file_ ? file_->size() - file_->begin() : static_cast<std::int64_t>(view_.size()); }

  /// Calls `visit(bytes)` for consecutive parts of the `count` bytes from offset `first` on (0: the first token); these
  /// must be within `size()`. `bytes` is valid during the call. The sizes of all parts but the last are multiples of 4.
  /// Throws `error` if the file cannot be read or, after the calls, if `token_file::verify` finds a change.
  void visit(std::int64_t first, std::int64_t count, function_ref<void(std::span<std::byte const>)> visit) const;

  /// The error for content that has changed since the corpus was made.
  error changed() const;

private:
  std::shared_ptr<void const> storage_{};
  std::span<std::byte const> view_{};
  std::shared_ptr<token_file const> file_{};
};

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/token_source.ipp"
#endif
