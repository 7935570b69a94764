#pragma once

#include "constrain/io/event_file.hpp"

#include "constrain/io/crc32c.hpp"
#include "constrain/io/plain_file.hpp"
#include "constrain/io/text_bytes.hpp"

#include <fcntl.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

// Protocol-buffer field numbers. Event: wall_time 1, step 2, file_version 3, summary 5. Summary: value 1. Value: tag 1,
// simple_value 2. The first event of a file holds only the time and the version of the format, "brain.Event:2".

[[gnu::cold]] CONSTRAIN_INLINE event_file::event_file(std::string const& path, double time)
    : path_(path), file_(open_plain_file(path, "the event file", O_WRONLY | O_EXCL)) {
  std::string event = float64(1, time);
  event += text(3, "brain.Event:2");
  record(event);
}

[[gnu::cold]] CONSTRAIN_INLINE void event_file::scalar(std::string_view name, std::int64_t step, double value,
                                                       double time) {
  std::string summary_value = text(1, name);
  summary_value += float32(2, static_cast<float>(value));
  std::string event = float64(1, time);
  event += integer(2, static_cast<std::uint64_t>(step));
  event += text(5, text(1, summary_value));
  record(event);
}

[[gnu::cold]] CONSTRAIN_INLINE std::string event_file::varint(std::uint64_t x) {
  std::string bytes;
  for (; x >= 128; x >>= 7) bytes += static_cast<char>((x & 127) | 128);
  return bytes += static_cast<char>(x);
}

[[gnu::cold]] CONSTRAIN_INLINE std::string event_file::fixed(std::uint64_t bits, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(bits >> 8 * i & 255);
  return bytes;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string event_file::checksum(std::string_view bytes) {
  auto const crc = crc32c{}.update(text_bytes(bytes)).value();
  return fixed((crc >> 15 | crc << 17) + 0xa282ead8u, 4); // the mask of the TFRecord format: rotate, then add
}

[[gnu::cold]] CONSTRAIN_INLINE void event_file::record(std::string const& event) {
  auto const length = fixed(event.size(), 8);
  auto const bytes = length + checksum(length) + event + checksum(event);
  if (!write_all(file_, bytes)) fail();
}

} // namespace constrain::io
