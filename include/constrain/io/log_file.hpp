#pragma once

#include "constrain/base/error.hpp"
#include "constrain/io/descriptor.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A text file to which a run appends lines. Each line that the caller writes must begin with `prefix` and the step
/// number. When a run is resumed after step `last_step`, the file is truncated before the first line of a later step,
/// and an incomplete last line is removed. Throws `error` if writing fails.
class log_file {
public:
  /// Opens or creates the file. `header`: the first line, written into an empty file; "": no header. `prefix`: the text
  /// before the step number in each line. An existing file is emptied if `last_step` is 0 or less, or if `header` is
  /// neither empty nor the file's first line. Throws `error` if the file cannot be opened, read or truncated, is not a
  /// regular file, is a symbolic link or has other hard links.
  log_file(std::string const& path, std::string prefix, std::string_view header, std::int64_t last_step);

  /// Appends `line` and a newline. `line` must begin with the prefix and the step number.
  void write(std::string line);

private:
  std::string path_, prefix_;
  descriptor file_;

  /// The number of bytes to keep: the complete lines before the first line of a step after `last_step`. 0 if the
  /// constructor must empty the file.
  [[gnu::cold]] off_t kept_bytes(std::string_view header, std::int64_t last_step) const;

  /// Throws the error for a failed write, with the reason from `errno`.
  [[noreturn]] void fail() const {
    throw error(
        {"the log '", path_, "' cannot be written (", reason(), "); ", remedy(), " or choose another directory"});
  }
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/log_file.ipp"
#endif
