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

/// A named array in the safetensors format. The bytes are borrowed: row-major, little-endian, as long as `dtype` times
/// `shape` says ([] is one element). In a foreign file they may lie at any address: copy, do not cast.
struct tensor {
  std::string name;
  std::string dtype; ///< "F64", "F32", "BF16", "F16", "I64", "I32", "U8", ...: see `dtype_bytes`.
  std::vector<std::int64_t> shape;
  std::span<std::byte const> bytes;
};

/// What a safetensors file holds, in the order of its header.
struct safetensors {
  std::vector<tensor> tensors;
  std::map<std::string, std::string> metadata;

  tensor const* find(std::string_view name) const {
    auto const found = std::find_if(tensors.begin(), tensors.end(), [&](tensor const& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

/// Reads the safetensors format (huggingface.co/docs/safetensors: 8 bytes of header length, JSON, data), strictly.
/// The tensors borrow `file`. Throws `error`, naming `where`, for everything that is not exactly that format, and for
/// more than `safetensors_most_names` tensors or entries of metadata. Whatever the header holds, a refusal takes less
/// than 1 MiB of memory and not much longer than sorting its names: the result is built when all of it was found sound.
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

/// An open safetensors file; its tensors live as long as it does.
class safetensors_file {
public:
  static safetensors_file open(std::string const& path) {
    safetensors_file result;
    result.path_ = path;
    result.file_ = mapped_file(path, "the safetensors file");
    result.contents_ = parse_safetensors(result.file_.bytes(), path);
    return result;
  }

  // Not of a temporary: `for (auto& t : safetensors_file::open(path).tensors())` would look at a closed file.
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
