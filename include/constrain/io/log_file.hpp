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

/// A text file that grows by whole lines, each with the number of its step behind `prefix`. A run that goes on after
/// `last_step` finds it as it was then: later lines, and a torn one, are cut off; a whole line that has no number any
/// more is left alone. Throws `error` where the system does not let it write.
class log_file {
public:
  /// `header` is the first line of a new file; it may be empty. The file is no link, and has no other name.
  log_file(std::string const& path, std::string prefix, std::string_view header, std::int64_t last_step)
      : path_(path), prefix_(std::move(prefix)), file_(open_plain_file(path, "the log", O_RDWR | O_APPEND)) {
    if (::ftruncate(file_.get(), kept(header, last_step)) != 0) fail();
    if (::lseek(file_.get(), 0, SEEK_END) == 0 && !header.empty()) write(std::string(header));
  }

  /// `line` is without its end.
  void write(std::string line) {
    line += '\n';
    if (!write_all(file_, line)) fail();
  }

private:
  std::string path_, prefix_;
  descriptor file_;

  /// How many bytes of what is there are lines of steps up to `last_step`.
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
