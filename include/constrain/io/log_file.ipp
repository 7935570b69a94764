#pragma once

#include "constrain/io/log_file.hpp"

#include "constrain/io/mapped_file.hpp"
#include "constrain/io/plain_file.hpp"

#include <charconv>
#include <fcntl.h>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE log_file::log_file(std::string const& path, std::string prefix, std::string_view header,
                                                  std::int64_t last_step)
    : path_(path), prefix_(std::move(prefix)), file_(open_plain_file(path, "the log", O_RDWR | O_APPEND)) {
  if (::ftruncate(file_.get(), kept_bytes(header, last_step)) != 0) fail();
  if (::lseek(file_.get(), 0, SEEK_END) == 0 && !header.empty()) write(std::string(header));
}

[[gnu::cold]] CONSTRAIN_INLINE void log_file::write(std::string line) {
  line += '\n';
  if (!write_all(file_, line)) fail();
}

[[gnu::cold]] CONSTRAIN_INLINE off_t log_file::kept_bytes(std::string_view header, std::int64_t last_step) const {
  if (last_step <= 0) return 0;
  mapped_file const content(file_, path_, "the log");
  auto remaining = content.text();
  if (!header.empty()) {
    if (!remaining.starts_with(concat({header, "\n"}))) return 0;
    remaining.remove_prefix(header.size() + 1);
  }
  while (!remaining.empty()) {
    auto const end = remaining.find('\n');
    if (end == std::string_view::npos) break;
    std::int64_t step = 0;
    if (remaining.starts_with(prefix_))
      std::from_chars(remaining.data() + prefix_.size(), remaining.data() + end, step);
    if (step > last_step) break;
    remaining.remove_prefix(end + 1);
  }
  return static_cast<off_t>(content.text().size() - remaining.size());
}

} // namespace constrain::io
