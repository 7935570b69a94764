#pragma once

#include "constrain/io/safetensors_files.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/safetensors_index.hpp"

#include <cstddef>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_files::add(std::span<std::byte const> bytes,
                                                           std::string const& source) {
  files_.push_back(parse_safetensors(bytes, source));
  for (auto const& t : files_.back().tensors) tensors_.push_back(&t); // moving a vector does not move its elements
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_files safetensors_files::parse(std::span<std::byte const> bytes,
                                                                          std::string const& source) {
  safetensors_files result;
  result.add(bytes, source);
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_files safetensors_files::open(std::string const& path) {
  mapped_file file(path, "the safetensors file");
  auto result = parse(file.bytes(), path);
  result.mapped_.push_back(std::move(file));
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_files safetensors_files::open_indexed(std::string const& path) {
  mapped_file const text(path, "the index");
  auto const directory = path.substr(0, path.find_last_of('/') + 1);
  std::vector<mapped_file> mapped;
  auto result = parse_indexed(text.text(), path, [&](std::string const& name) {
    return mapped.emplace_back(directory + name, "the safetensors file").bytes();
  });
  result.mapped_ = std::move(mapped);
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_files
safetensors_files::parse_indexed(std::string_view index_text, std::string const& source,
                                 function_ref<std::span<std::byte const>(std::string const& name)> bytes_of) {
  auto const index = safetensors_index::parse(index_text, source);
  auto const directory = source.substr(0, source.find_last_of('/') + 1);
  safetensors_files result;
  std::vector<bool> found(index.tensors.size());
  for (std::size_t i = 0; i < index.files.size(); ++i) {
    result.add(bytes_of(index.files[i]), directory + index.files[i]);
    for (auto const& t : result.files_.back().tensors) {
      auto const* const listed = index.find(t.name);
      if (listed == nullptr || listed->file != i)
        throw error({"the file '", directory, index.files[i], "' has a tensor '", t.name, "' that the index '", source,
                     "' does not list for it; get the files again"});
      found[static_cast<std::size_t>(listed - index.tensors.data())] = true;
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (auto const& listed = index.tensors[i]; !found[i])
      throw error({"the index '", source, "' lists the tensor '", listed.name, "' in '", index.files[listed.file],
                   "', which does not have it; get the files again"});
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE tensor const* safetensors_files::find(std::string_view name) const& {
  for (auto const& file : files_)
    if (auto const* const result = file.find(name)) return result;
  return nullptr;
}

} // namespace constrain::io
