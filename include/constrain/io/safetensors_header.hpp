#pragma once

#include "constrain/base/error.hpp"
#include "constrain/io/dtype.hpp"
#include "constrain/io/json_cursor.hpp"
#include "constrain/io/json_names.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The maximum number of tensors, and of metadata entries, in a safetensors file that this library reads or writes.
/// Checking a header needs 4 bytes of memory per tensor or, if there are more metadata entries than tensors, per
/// metadata entry.
inline constexpr std::size_t safetensors_maximum_names = std::size_t{1} << 17;

namespace detail {

/// A tensor's entry in the header.
struct safetensors_entry {
  std::string_view name;                ///< As written, with escapes not decoded.
  std::string dtype;                    ///< With escapes decoded, for example "F32".
  std::uint32_t shape = 0, offsets = 0; ///< Header positions of the shape array and the first data offset; 0: none yet.
  std::uint64_t begin = 0, end = 0;     ///< Byte range in the data section.
};

/// The JSON header of a safetensors file. The functions read the text again instead of storing entries. `check` checks
/// the JSON and the number of names before it allocates memory for each name.
class safetensors_header {
public:
  using tensor_function = function_ref<void(safetensors_entry const&)>;
  using metadata_function = function_ref<void(std::string_view name, std::string_view value)>;

  /// `start`: the beginning of the header. `source`: the name of the file in errors, except in JSON errors, which name
  /// the source of `start`. `data_bytes`: size of the data section. `source` and the strings of `start` must outlive
  /// this object.
  safetensors_header(json_cursor const& start, std::string const& source, std::uint64_t data_bytes)
      : start_(start), source_(source), data_bytes_(data_bytes) {}

  /// Calls `on_tensor(entry)` for every tensor and `on_metadata(name, value)` for every metadata entry, in order;
  /// `name` and `value` are as written, with escapes not decoded. Throws `error` for invalid JSON, an invalid entry or
  /// a second `__metadata__`. Does not compare entries with each other.
  void read(tensor_function on_tensor, metadata_function on_metadata) const;

  /// Throws `error` unless the header is valid: besides the checks of `read`, names must be unique, the numbers of
  /// tensors and of metadata entries must not exceed `safetensors_maximum_names`, and the tensors must cover the data
  /// without overlap or gap.
  [[gnu::cold]] void check() const;

  /// The shape of an entry that `read` passed to `on_tensor`.
  std::vector<std::int64_t> shape(safetensors_entry const& entry) const;

  /// A string of the header, as `read` passed it to a callback, with its escapes decoded.
  std::string decoded(std::string_view string) const { return start_.decoded(string); }

private:
  static constexpr auto ignore = [](auto const&...) {};

  json_cursor start_;
  std::string const& source_;
  std::uint64_t data_bytes_;

  /// The error for an invalid tensor. `tensor`: its name as written. `advice`: what the user can do.
  error refusal(std::string_view tensor, std::string_view reason,
                std::string_view advice = "get the file again") const {
    return error({"the tensor '", decoded_text(start_, tensor), "' in '", source_, "' ", reason, "; ", advice});
  }

  /// Increments `names`. Throws `error` above `safetensors_maximum_names`; `message_end`: the end of the message.
  void increment_checked(std::size_t& names, std::string_view message_end) const {
    if (++names > safetensors_maximum_names)
      throw error({"'", source_, "' has more than ", safetensors_maximum_names, message_end});
  }

  /// Reads the entry of the tensor `name`. Throws `error` if the entry is invalid.
  safetensors_entry read_entry(json_cursor& cursor, std::string_view name) const;

  // These three functions read one member's value into `entry`, and throw `error` if it is invalid. `read_shape` also
  // multiplies `elements` by the extents.
  void read_dtype(json_cursor& cursor, safetensors_entry& entry) const;

  void read_shape(json_cursor& cursor, safetensors_entry& entry, element_count& elements) const;

  void read_offsets(json_cursor& cursor, safetensors_entry& entry) const;

  /// Throws `error` unless the tensors cover the data without overlap or gap. `tensors`: the position of each tensor's
  /// first data offset; sorted in place. The sort reads only first offsets, because any amount of white space may
  /// precede a second offset.
  [[gnu::cold]] void check_layout(std::vector<std::uint32_t>& tensors) const;

  /// The two data offsets of a tensor. `offsets`: the position of the first offset.
  std::pair<std::uint64_t, std::uint64_t> read_pair(std::uint32_t offsets) const;

  /// Throws `error`, with `reason`, for the tensor whose first data offset is at the position `offsets`; returns if
  /// there is none.
  void refuse_tensor_at(std::uint32_t offsets, std::string_view reason) const;
};

} // namespace detail

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/safetensors_header.ipp"
#endif
