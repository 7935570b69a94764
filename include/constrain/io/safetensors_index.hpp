#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The index of tensors that are stored in several safetensors files, as Hugging Face Transformers writes it:
/// {"metadata": {...}, "weight_map": {"<tensor>": "<file>", ...}}. The files are in the directory of the index.
struct safetensors_index {
  /// A tensor and its file.
  struct entry {
    std::string name;     // unique in the index
    std::size_t file = 0; // position in `files`
  };
  std::vector<std::string> files; ///< The names of the files, each once, in the order in which they first occur.
  std::vector<entry> tensors;     ///< Sorted by name.

  /// The entry of the tensor `name`, or null if the index does not list it.
  entry const* find(std::string_view name) const;

  /// Parses the text of an index; ignores everything but its "weight_map". Throws an `error` that names `source` if the
  /// text is not valid JSON, is longer than 64 MiB, has no object "weight_map" of strings, lists no tensor or more than
  /// `safetensors_maximum_names`, or has a file name that is not a `valid_file_name` with the suffix ".safetensors".
  [[gnu::cold]] static safetensors_index parse(std::string_view text, std::string const& source);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/safetensors_index.ipp"
#endif
