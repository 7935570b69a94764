#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/path.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Writes scalars for TensorBoard, as TFRecords that each contain an Event in the protocol-buffer wire format
/// (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto). Throws `error` if the file cannot be
/// created or written.
class event_file {
public:
  /// Creates a file, with the current time as the start time, in an existing directory, with a name that TensorBoard
  /// recognizes: 'events.out.tfevents.<...>'.
  [[gnu::cold]] explicit event_file(std::string const& directory)
      : event_file(concat({directory, "/events.out.tfevents.", std::time(nullptr), ".constrain.", unlikely_suffix()}),
                   static_cast<double>(std::time(nullptr))) {}
  /// Creates the file `path`, which must not exist, with the start time `time` in seconds since 1970.
  event_file(std::string const& path, double time);

  /// Writes the value of the scalar `name` (UTF-8), rounded to float, at step `step`, with the current time.
  void scalar(std::string_view name, std::int64_t step, double value) {
    scalar(name, step, value, static_cast<double>(std::time(nullptr)));
  }
  /// Like the overload above, but with the time `time`, in seconds since 1970.
  [[gnu::cold]] void scalar(std::string_view name, std::int64_t step, double value, double time);

private:
  std::string path_;
  descriptor file_;

  // Protocol-buffer encoding. A field is a key (the field's number and wire type, as one varint) followed by the
  // field's value: a varint, little-endian bytes (`fixed`: the lowest `size` bytes of `bits`), or a length and a
  // string.
  static std::string varint(std::uint64_t x);
  static std::string fixed(std::uint64_t bits, int size);
  static std::string key(std::uint64_t field, std::uint64_t wire_type) { return varint(field << 3 | wire_type); }
  static std::string integer(std::uint64_t field, std::uint64_t x) { return key(field, 0) + varint(x); }
  static std::string float64(std::uint64_t field, double x) {
    return key(field, 1) + fixed(std::bit_cast<std::uint64_t>(x), 8);
  }
  static std::string float32(std::uint64_t field, float x) {
    return key(field, 5) + fixed(std::bit_cast<std::uint32_t>(x), 4);
  }
  static std::string text(std::uint64_t field, std::string_view x) {
    return (key(field, 2) + varint(x.size())).append(x);
  }

  /// The CRC-32C of `bytes`, masked as TFRecords require: 4 bytes.
  static std::string checksum(std::string_view bytes);

  /// Writes a TFRecord: the event's length (8 bytes), the length's checksum, the event and its checksum.
  [[gnu::cold]] void record(std::string const& event);

  /// Throws the error for a failed write, with the reason from `errno`.
  [[noreturn]] void fail() const {
    throw error({"the event file '", path_, "' cannot be written (", reason(), "); ", remedy(),
                 " or choose another directory"});
  }
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/event_file.ipp"
#endif
