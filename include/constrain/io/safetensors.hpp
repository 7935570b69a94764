#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/io/dtype.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/safetensors_header.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A named tensor in the safetensors format. `bytes` is a view: row-major, little-endian, of the size that dtype and
/// shape give ([] is one element). In files of other programs they may be unaligned: copy, do not cast.
struct tensor {
  std::string name;                 ///< Unique in its file.
  std::string dtype;                ///< "F64", "F32", "BF16", "F16", "I64", "I32", "U8", ...: see `dtype_bytes`.
  std::vector<std::int64_t> shape;  ///< Extents, outermost first.
  std::span<std::byte const> bytes; ///< The elements; a view.
};

/// The content of a safetensors file, in the order of its header.
struct safetensors {
  std::vector<tensor> tensors;                 ///< In the order of the header.
  std::map<std::string, std::string> metadata; ///< The header's "__metadata__".

  /// The tensor of that name; null: none.
  tensor const* find(std::string_view name) const {
    auto const found = std::find_if(tensors.begin(), tensors.end(), [&](tensor const& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

/// Parses the safetensors format strictly (huggingface.co/docs/safetensors: 8 bytes of header length, JSON header,
/// data). The tensors are views of `file`. Throws `error`, naming `where`, for any deviation from the format, and for
/// more than `safetensors_most_names` tensors or metadata entries. The whole header is checked before the result is
/// built: checking takes less than 1 MiB of memory and about the time of sorting its names, whatever a malicious header
/// contains.
[[gnu::noinline, gnu::cold]] inline safetensors parse_safetensors(std::span<std::byte const> file,
                                                                  std::string const& where) {
  if (file.size() < 8) throw error({"'", where, "' is too short for a safetensors file; get the file again"});
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < 8; ++i) header |= std::uint64_t(file[i]) << (8 * i);
  if (header > file.size() - 8)
    throw error({"'", where, "' says that its header has ", header, " bytes but ends after ", file.size() - 8,
                 "; get the file again"});
  auto const data = file.subspan(8 + header);
  std::string_view const text(reinterpret_cast<char const*>(file.data()) + 8, header);
  if (!text.starts_with('{'))
    throw error({"'", where, "' does not begin as a safetensors file; give a file of that format"});
  detail::safetensors_header const sound(text, where, data.size());
  sound.check();
  safetensors result;
  sound.read(
      [&](detail::safetensors_entry const& t) {
        result.tensors.push_back(
            {sound.decoded(t.name), t.dtype, sound.shape(t), data.subspan(t.begin, t.end - t.begin)});
      },
      [&](std::string_view name, std::string_view value) {
        result.metadata.emplace(sound.decoded(name), sound.decoded(value));
      });
  return result;
}

/// An open safetensors file, mapped into memory; its tensors are valid as long as this object.
class safetensors_file {
public:
  /// Opens and parses a file. Throws `error`.
  static safetensors_file open(std::string const& path) {
    safetensors_file result;
    result.path_ = path;
    result.file_ = mapped_file(path, "the safetensors file");
    result.contents_ = parse_safetensors(result.file_.bytes(), path);
    return result;
  }

  // Deleted for temporaries: `for (auto& t : safetensors_file::open(path).tensors())` would read a closed file.
  safetensors const& contents() const& { return contents_; }
  std::vector<tensor> const& tensors() const& { return contents_.tensors; }
  std::map<std::string, std::string> const& metadata() const& { return contents_.metadata; }
  tensor const* find(std::string_view name) const& { return contents_.find(name); }
  void contents() && = delete;
  void tensors() && = delete;
  void metadata() && = delete;
  void find(std::string_view name) && = delete;

private:
  std::string path_;
  mapped_file file_;
  safetensors contents_;
};

} // namespace constrain::io
