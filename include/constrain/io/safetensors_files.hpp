#pragma once

#include "constrain/io/safetensors.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The tensors of one safetensors file, or of several (shards) with an index. They are valid for the lifetime of this
/// object.
class safetensors_files {
public:
  /// Opens one file. Throws `error` if it cannot be read or is not valid.
  [[gnu::cold]] static safetensors_files open(std::string const& path);
  /// Opens the files of the index at `path` (`safetensors_index`), which are in the directory of the index. Throws
  /// `error` if a file cannot be read or is not valid, or if the index and a file do not have the same tensors.
  [[gnu::cold]] static safetensors_files open_indexed(std::string const& path);

  /// All tensors, file by file.
  std::vector<tensor const*> const& tensors() const& { return tensors_; }
  void tensors() && = delete;
  /// The tensor `name`, or null if there is none.
  tensor const* find(std::string_view name) const&;
  void find(std::string_view name) && = delete;

private:
  std::vector<safetensors_file> files_;
  std::vector<tensor const*> tensors_;

  void add(safetensors_file file);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/safetensors_files.ipp"
#endif
