#pragma once

#include "constrain/io/safetensors_writer.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/io/atomic_file.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/safetensors_header.hpp"
#include "constrain/io/text_bytes.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

namespace detail {

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::uint32_t> duplicate_name(
    std::size_t count, function_ref<std::string_view(std::uint32_t)> name_of) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  constrain::detail::heap_sort(order, [&](std::uint32_t a, std::uint32_t b) { return name_of(a) < name_of(b); });
  for (std::size_t i = 1; i < count; ++i)
    if (name_of(order[i]) == name_of(order[i - 1])) return order[i];
  return std::nullopt;
}

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE void write_safetensors(output_file& out, std::span<tensor const> tensors,
                                                      metadata_list const& metadata,
                                                      function_ref<std::span<std::byte const>(std::size_t)> bytes_of) {
  if (std::max(tensors.size(), metadata.size()) > safetensors_maximum_names)
    throw error({"a safetensors file of ", counted(tensors.size(), "tensor"), " and ",
                 counted(metadata.size(), "metadata key"), " has too many names to be read; write at most ",
                 safetensors_maximum_names, " of each to one file"});
  std::vector<tensor const*> order;
  for (auto const& t : tensors) {
    auto const needed = tensor_bytes(t.dtype, t.shape);
    if (!needed)
      throw error({"the tensor '", t.name, "' has ",
                   dtype_bytes(t.dtype) == 0
                       ? concat({"the unsupported dtype '", t.dtype, "'; give another, such as F32"})
                       : "a negative extent, or more than 2^63 - 1 bytes; correct its shape"});
    if (*needed != t.bytes.size())
      throw error({"the tensor '", t.name, "' has ", counted(t.bytes.size(), "byte"), ", but its dtype '", t.dtype,
                   "' and shape need ", *needed, "; correct one of them"});
    if (t.name == "__metadata__")
      throw error("the name '__metadata__' is reserved in a safetensors file; give the tensor another name");
  }
  if (auto const i =
          detail::duplicate_name(tensors.size(), [&](auto t) -> std::string_view { return tensors[t].name; }))
    throw error({"the tensor name '", tensors[*i].name, "' occurs twice; give every tensor its own name"});
  if (auto const i =
          detail::duplicate_name(metadata.size(), [&](auto m) -> std::string_view { return metadata[m].first; }))
    throw error({"the metadata key '", metadata[*i].first, "' occurs twice; give each key one value"});
  for (auto const element_bytes : {std::size_t{8}, std::size_t{4}, std::size_t{2}, std::size_t{1}})
    for (auto const& t : tensors)
      if (dtype_bytes(t.dtype) == element_bytes) order.push_back(&t);

  json_writer header;
  header.object(json_layout::row);
  if (!metadata.empty()) {
    header.object("__metadata__");
    for (auto const& [key, value] : metadata) header.member(key, value);
    header.end();
  }
  std::uint64_t offset = 0;
  for (auto const t : order) {
    header.object(t->name).member("dtype", t->dtype).array("shape");
    for (auto const extent : t->shape) header.element(extent);
    header.end().array("data_offsets").element(offset).element(offset + t->bytes.size()).end().end();
    offset += t->bytes.size();
  }
  auto text = header.end().text();
  text.resize((text.size() + 7) / 8 * 8, ' ');

  std::byte length[8];
  for (std::size_t i = 0; i < 8; ++i) length[i] = std::byte(text.size() >> (8 * i) & 255);
  out.write(std::span<std::byte const>(length));
  out.write(text_bytes(text));
  for (auto const t : order) out.write(bytes_of(static_cast<std::size_t>(t - tensors.data())));
}

[[gnu::cold]] CONSTRAIN_INLINE void write_safetensors(std::string const& path, std::span<tensor const> tensors,
                                                      metadata_list const& metadata) {
  atomic_file file(path);
  write_safetensors(file.out(), tensors, metadata);
  file.commit();
}

} // namespace constrain::io
