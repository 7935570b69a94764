#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/io/failure.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/mapped_file.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A named array in the safetensors format. The bytes are borrowed: row-major, little-endian, as long as `dtype` times
/// `shape` says ([] is one element). In a foreign file they may lie at any address: copy, do not cast.
struct tensor {
  std::string name;
  std::string dtype; ///< "F64", "F32", "BF16", "F16", "I64", "I32", "U8", ...: see `dtype_bytes`.
  std::vector<std::int64_t> shape;
  std::span<std::byte const> bytes;
};

/// Bytes of one element, 0 for a dtype that is not known.
constexpr std::size_t dtype_bytes(std::string_view dtype) {
  for (std::string_view const one : {"U8", "I8", "BOOL", "F8_E4M3", "F8_E5M2"})
    if (dtype == one) return 1;
  for (std::string_view const two : {"BF16", "F16", "I16", "U16"})
    if (dtype == two) return 2;
  for (std::string_view const four : {"F32", "I32", "U32"})
    if (dtype == four) return 4;
  for (std::string_view const eight : {"F64", "I64", "U64"})
    if (dtype == eight) return 8;
  return 0;
}

/// Bytes that dtype and shape ask for; nothing where the dtype is unknown, an extent negative or the product too large.
constexpr std::optional<std::uint64_t> tensor_bytes(std::string_view dtype, std::span<std::int64_t const> shape) {
  std::uint64_t bytes = dtype_bytes(dtype);
  if (bytes == 0) return std::nullopt;
  bool const empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (auto const extent : shape) {
    if (extent < 0) return std::nullopt;
    if (!empty && bytes > std::uint64_t(INT64_MAX) / std::uint64_t(extent)) return std::nullopt;
    bytes *= std::uint64_t(extent);
  }
  return empty ? 0 : bytes;
}

/// What a safetensors file holds, in the order of its header.
struct safetensors {
  std::vector<tensor> tensors;
  std::map<std::string, std::string> metadata;

  tensor const* find(std::string_view name) const {
    auto const found = std::find_if(tensors.begin(), tensors.end(), [&](tensor const& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

namespace detail {

inline tensor parse_tensor(json_member const& member, std::span<std::byte const> data, std::string const& where) {
  auto const fail = [&](std::string const& reason) -> error {
    return failure({"the tensor '", member.name, "' in '", where, "' ", reason, "; get the file again"});
  };
  tensor result{std::string(member.name), std::string(member.value["dtype"].string()), {}, {}};
  if (dtype_bytes(result.dtype) == 0) throw fail("has the unknown dtype '" + result.dtype + "'");
  auto const shape = member.value["shape"];
  for (auto const& extent : shape.elements()) {
    if (extent.int64() < 0) extent.fail("an extent of zero or more");
    result.shape.push_back(extent.int64());
  }
  auto const offsets = member.value["data_offsets"];
  std::uint64_t range[2]{}, *out = range;
  if (offsets.elements(); offsets.size() != 2) offsets.fail("an array of two offsets");
  for (auto const& offset : offsets.elements()) *out++ = offset.uint64();
  if (member.value.size() != 3) throw fail("has members other than dtype, shape and data_offsets");
  if (range[0] > range[1]) throw fail("ends before it begins");
  if (range[1] > data.size())
    throw fail("ends at byte " + std::to_string(range[1]) + " of " + std::to_string(data.size()) + " bytes of data");
  auto const needed = tensor_bytes(result.dtype, result.shape);
  if (!needed) throw fail("has a shape too large to count");
  if (*needed != range[1] - range[0])
    throw fail("has " + std::to_string(range[1] - range[0]) + " bytes where its dtype and shape need " +
               std::to_string(*needed));
  result.bytes = data.subspan(range[0], range[1] - range[0]);
  return result;
}

inline void check_layout(std::span<tensor const> tensors, std::span<std::byte const> data, std::string const& where) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto const begin = [&](std::size_t i) { return tensors[i].bytes.data() - data.data(); };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) {
    return std::pair(begin(a), tensors[a].bytes.size()) < std::pair(begin(b), tensors[b].bytes.size());
  });
  std::ptrdiff_t end = 0;
  for (auto const i : order) {
    if (begin(i) != end)
      throw failure({"the tensor '", tensors[i].name, "' in '", where, "' ",
                     begin(i) < end ? "overlaps the one before it" : "leaves a hole before it",
                     "; get the file again"});
    end += static_cast<std::ptrdiff_t>(tensors[i].bytes.size());
  }
  if (static_cast<std::size_t>(end) != data.size())
    throw failure({"'", where, "' has ", data.size() - static_cast<std::size_t>(end),
                   " bytes after its last tensor; get the file again"});
}

} // namespace detail

/// Reads the safetensors format (huggingface.co/docs/safetensors: 8 bytes of header length, JSON, data), strictly.
/// The tensors borrow `file`. Throws `error`, naming `where`, for everything that is not exactly that format.
inline safetensors parse_safetensors(std::span<std::byte const> file, std::string const& where) {
  if (file.size() < 8) throw failure({"'", where, "' is too short for a safetensors file; get the file again"});
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < 8; ++i) header |= std::uint64_t(file[i]) << (8 * i);
  if (header > file.size() - 8)
    throw failure({"'", where, "' says that its header has ", header, " bytes but ends after ", file.size() - 8,
                   "; get the file again"});
  auto const data = file.subspan(8 + header);
  std::string_view const text(reinterpret_cast<char const*>(file.data()) + 8, header);
  if (!text.starts_with('{'))
    throw failure({"'", where, "' does not begin as a safetensors file; give a file of that format"});
  safetensors result;
  auto const root = json::parse(text, where);
  for (auto const& member : root.members()) {
    if (member.name != "__metadata__") result.tensors.push_back(detail::parse_tensor(member, data, where));
    else
      for (auto const& [key, value] : member.value.members()) result.metadata.emplace(key, value.string());
  }
  detail::check_layout(result.tensors, data, where);
  return result;
}

/// An open safetensors file; its tensors live as long as it does.
class safetensors_file {
 public:
  static safetensors_file open(std::string const& path) {
    safetensors_file result;
    result.path = path;
    result.file = mapped_file(path, "the safetensors file");
    result.contents_ = parse_safetensors(result.file.bytes(), path);
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
  std::string path;
  mapped_file file;
  safetensors contents_;
};

} // namespace constrain::io
