#pragma once

#include "constrain/base/error.hpp"
#include "constrain/io/descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A read-only memory mapping of a file. The mapping of an empty file is empty. The mapping stays valid if the file is
/// renamed or removed. If another process truncates the file in place, a read beyond the new end can raise SIGBUS.
class mapped_file {
public:
  mapped_file() = default;

  /// Maps a regular file. Throws `error`, with a message that begins with `description`, if the file is not a regular
  /// file, or cannot be opened or mapped. Also throws the error of `system_path` for a path with a NUL byte.
  explicit mapped_file(std::string const& path, std::string const& description = "the file")
      : mapped_file(open_file(path, description), path, description) {}
  /// Maps a regular file that is open for reading. `file` may be closed afterwards. `description`, `path`: the file's
  /// name in errors, as in "the log 'a.txt'". Throws `error` if the file cannot be mapped.
  mapped_file(descriptor const& file, std::string const& path, std::string const& description) {
    struct stat status {};
    if (::fstat(file.get(), &status) == 0 && status.st_size == 0) return;
    auto const size = static_cast<std::size_t>(status.st_size);
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address == MAP_FAILED)
      throw error({description, " '", path, "' cannot be read (", reason(), "); ",
                   errno == ENODEV ? "copy it to a file system that can map files" : remedy()});
    view_ = {static_cast<std::byte const*>(address), size};
  }

  mapped_file(mapped_file&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~mapped_file() {
    if (!view_.empty()) ::munmap(const_cast<std::byte*>(view_.data()), view_.size());
  }

  /// The file's content, as bytes or text; valid for the lifetime of this object.
  std::span<std::byte const> bytes() const { return view_; }
  std::string_view text() const { return {reinterpret_cast<char const*>(view_.data()), view_.size()}; }

private:
  std::span<std::byte const> view_;
};

} // namespace constrain::io
