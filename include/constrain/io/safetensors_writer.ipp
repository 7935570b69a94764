#pragma once

#include "constrain/io/safetensors_writer.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/atomic_file.hpp"
#include "constrain/io/json_names.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/safetensors_header.hpp"
#include "constrain/io/text_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE void write_safetensors(output_file& out, std::span<tensor const> tensors,
                                                      metadata_list const& metadata,
                                                      function_ref<std::span<std::byte const>(std::size_t)> bytes_of) {
  if (std::max(tensors.size(), metadata.size()) > safetensors_most_names)
    throw error({"a safetensors file of ", tensors.size(), " tensors and ", metadata.size(),
                 " entries of metadata could not be read back; write at most ", safetensors_most_names,
                 " of each in one file"});
  std::vector<tensor const*> order;
  for (auto const& t : tensors) {
    auto const needed = tensor_bytes(t.dtype, t.shape);
    if (!needed)
      throw error(
          {"the tensor '", t.name, "' has a shape or dtype ('", t.dtype, "') that cannot be saved; correct it"});
    if (*needed != t.bytes.size())
      throw error({"the tensor '", t.name, "' has ", counted(t.bytes.size(), "byte"), ", but its dtype '", t.dtype,
                   "' and shape need ", *needed, "; correct one of them"});
    auto const same = [&](tensor const& other) { return &other != &t && other.name == t.name; };
    if (t.name == "__metadata__")
      throw error("the name '__metadata__' is reserved in a safetensors file; give the tensor another name");
    if (std::any_of(tensors.begin(), tensors.end(), same))
      throw error({"the tensor name '", t.name, "' occurs twice; give every tensor its own name"});
  }
  for (auto const width : {std::size_t{8}, std::size_t{4}, std::size_t{2}, std::size_t{1}})
    for (auto const& t : tensors)
      if (dtype_bytes(t.dtype) == width) order.push_back(&t);

  std::vector<std::uint32_t> keys;
  for (auto const& entry : metadata) keys.push_back(static_cast<std::uint32_t>(&entry - metadata.data()));
  detail::sort_places(keys, [&](std::uint32_t a, std::uint32_t b) { return metadata[a].first < metadata[b].first; });
  for (std::size_t i = 1; i < keys.size(); ++i)
    if (metadata[keys[i]].first == metadata[keys[i - 1]].first)
      throw error({"the metadata key '", metadata[keys[i]].first, "' occurs twice; give each key one value"});

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
