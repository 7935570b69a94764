#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/safetensors.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The tensors of one safetensors file, or of the several files that an index lists. The tensors are valid while this
/// object exists and, after `parse` or `parse_indexed`, only while the caller's bytes exist too. See `mapped_file` for
/// what happens if another process truncates a file.
class safetensors_files {
public:
  /// Opens one file. Throws `error` if it cannot be read or is not valid.
  [[gnu::cold]] static safetensors_files open(std::string const& path);
  /// Opens the files of the index at `path` (`safetensors_index`), which are in the directory of the index. Throws
  /// `error` if the index or a file cannot be read or is not valid, or if a file does not have exactly the tensors that
  /// the index lists in it.
  [[gnu::cold]] static safetensors_files open_indexed(std::string const& path);
  /// The tensors of one file, from the file's bytes. Throws `error`, naming `source`, if the bytes are not valid.
  [[gnu::cold]] static safetensors_files parse(std::span<std::byte const> bytes, std::string const& source);
  /// The tensors of the files that an index lists. `index_text`: the index's text; `source`: its path.
  /// `bytes_of(name)` returns the bytes of the file `name`; it is called once for each file. Throws the errors of
  /// `open_indexed`.
  [[gnu::cold]] static safetensors_files parse_indexed(
      std::string_view index_text, std::string const& source,
      function_ref<std::span<std::byte const>(std::string const& name)> bytes_of);

  /// All tensors, file by file.
  std::vector<tensor const*> const& tensors() const& { return tensors_; }
  void tensors() && = delete;
  /// The tensor `name`, or null if there is none. Linear search.
  tensor const* find(std::string_view name) const&;
  void find(std::string_view name) && = delete;

private:
  std::vector<mapped_file> mapped_; // the files that this object has opened
  std::vector<safetensors> files_;
  std::vector<tensor const*> tensors_;

  /// Parses one file and appends its tensors. Throws the errors of `parse_safetensors`.
  void add(std::span<std::byte const> bytes, std::string const& source);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/safetensors_files.ipp"
#endif
