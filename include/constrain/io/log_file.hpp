#pragma once

#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>

#include "constrain/base/error.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/plain_file.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A text file to which lines are appended, each beginning with `prefix` and its step. When a run is resumed after
/// `last_step`, later lines and an incomplete last line are removed; complete lines without a step are kept. Throws
/// `error` if writing fails.
class log_file {
public:
  /// `header`: first line of a new file; may be empty. A file that begins with another header is started anew, as is
  /// every file if `last_step` is 0. Symbolic links and files with other hard links are refused.
  log_file(std::string const& path, std::string prefix, std::string_view header, std::int64_t last_step)
      : path_(path), prefix_(std::move(prefix)), file_(open_plain_file(path, "the log", O_RDWR | O_APPEND)) {
    if (::ftruncate(file_.get(), kept(header, last_step)) != 0) fail();
    if (::lseek(file_.get(), 0, SEEK_END) == 0 && !header.empty()) write(std::string(header));
  }

  /// Appends a line, given without its newline.
  void write(std::string line) {
    line += '\n';
    if (!write_all(file_, line)) fail();
  }

private:
  std::string path_, prefix_;
  descriptor file_;

  /// Size of the part to keep: the lines up to the first one of a step after `last_step`.
  [[gnu::noinline, gnu::cold]] off_t kept(std::string_view header, std::int64_t last_step) const {
    if (last_step <= 0) return 0;
    mapped_file const before(file_, path_, "the log");
    auto rest = before.text();
    if (!header.empty()) {
      if (!rest.starts_with(std::string(header) + '\n')) return 0;
      rest.remove_prefix(header.size() + 1);
    }
    while (!rest.empty()) {
      auto const end = rest.find('\n');
      if (end == std::string_view::npos) break;
      std::int64_t step = 0;
      if (rest.starts_with(prefix_)) std::from_chars(rest.data() + prefix_.size(), rest.data() + end, step);
      if (step > last_step) break;
      rest.remove_prefix(end + 1);
    }
    return static_cast<off_t>(before.text().size() - rest.size());
  }

  [[noreturn]] void fail() const {
    throw error({"the log '", path_, "' cannot be written (", reason(), "); make room or choose another directory"});
  }
};

} // namespace constrain::io
