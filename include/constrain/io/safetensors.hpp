#pragma once

#include "constrain/io/dtype.hpp"
#include "constrain/io/mapped_file.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A named tensor in the safetensors format. `bytes` is a view of the elements: row-major, little-endian, with the size
/// that the dtype and shape require (without dimensions: one element). In files written by other programs the bytes may
/// be unaligned: copy them, do not cast the pointer.
struct tensor {
  std::string name;                 ///< Unique in its file.
  std::string dtype;                ///< "F64", "F32", "BF16", "F16", "I64", "I32", "U8", ...: see `dtype_bytes`.
  std::vector<std::int64_t> shape;  ///< Extents, outermost first.
  std::span<std::byte const> bytes; ///< The elements; a view.
};

/// Keys and values of a safetensors header's "__metadata__", in the order of the header. Keys are unique.
using metadata_list = std::vector<std::pair<std::string, std::string>>;

/// The content of a safetensors file.
struct safetensors {
  std::vector<tensor> tensors; ///< In the order of the header.
  metadata_list metadata;      ///< Keys and values of the header's "__metadata__".

  /// The tensor `name`, or null if there is none. Linear search.
  tensor const* find(std::string_view name) const;
};

/// Parses the safetensors format strictly (huggingface.co/docs/safetensors: 8 bytes of header length, JSON header,
/// data). The tensors are views of `file`. Throws `error`, naming `source`, for any violation of the format, for a
/// dtype unknown to `dtype_bytes`, and for more than `safetensors_maximum_names` (2^17) tensors or metadata entries.
/// Checks the full header before building the result. For any header, even a malicious one, the check needs less than 1
/// MiB of memory, and only the time to read the header a few times and to sort the names and the data offsets.
[[gnu::cold]] safetensors parse_safetensors(std::span<std::byte const> file, std::string const& source);

/// An open safetensors file, mapped into memory. Its tensors are valid for the lifetime of this object. See
/// `mapped_file` for what happens if another process truncates the file.
class safetensors_file {
public:
  /// Opens and parses a file. Throws `error` if the file cannot be read or is not valid.
  static safetensors_file open(std::string const& path);

  /// The parsed content, its tensors and metadata, and the tensor `name` (null if there is none).
  safetensors const& contents() const& { return contents_; }
  std::vector<tensor> const& tensors() const& { return contents_.tensors; }
  metadata_list const& metadata() const& { return contents_.metadata; }
  tensor const* find(std::string_view name) const& { return contents_.find(name); }
  // Deleted for temporaries: `for (auto& t : safetensors_file::open(path).tensors())` would read a closed file.
  void contents() && = delete;
  void tensors() && = delete;
  void metadata() && = delete;
  void find(std::string_view name) && = delete;

private:
  mapped_file file_;
  safetensors contents_;
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/safetensors.ipp"
#endif
