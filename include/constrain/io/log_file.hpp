#pragma once

#include "constrain/base/error.hpp"
#include "constrain/io/descriptor.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A text file to which lines are appended, each beginning with `prefix` and its step. When a run is resumed after step
/// `last_step`, the file is cut before the first line of a later step, and an incomplete last line is removed. Throws
/// `error` if writing fails.
class log_file {
public:
  /// `header`: first line of a new file; may be empty. A file that begins with another header is emptied first, as is
  /// every file if `last_step` is 0. Throws `error` for symbolic links and for files with other hard links.
  log_file(std::string const& path, std::string prefix, std::string_view header, std::int64_t last_step);

  /// Appends a line, given without its newline.
  void write(std::string line);

private:
  std::string path_, prefix_;
  descriptor file_;

  /// Size of the part to keep: the complete lines before the first line of a step after `last_step`.
  [[gnu::cold]] off_t kept(std::string_view header, std::int64_t last_step) const;

  [[noreturn]] void fail() const {
    throw error({"the log '", path_, "' cannot be written (", reason(), "); make room or choose another directory"});
  }
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/log_file.ipp"
#endif
