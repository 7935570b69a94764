#pragma once

#include "constrain/io/safetensors_index.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/safetensors_header.hpp"

#include <algorithm>
#include <map>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE auto safetensors_index::find(std::string_view name) const -> entry const* {
  auto const position = std::ranges::lower_bound(tensors, name, {}, &entry::name);
  return position != tensors.end() && position->name == name ? &*position : nullptr;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_index safetensors_index::parse(std::string_view text,
                                                                          std::string const& source) {
  constexpr std::size_t maximum_bytes = std::size_t{64} << 20;
  if (text.size() > maximum_bytes)
    throw error({"the index '", source, "' has ", text.size(), " bytes, but an index has at most ", maximum_bytes,
                 "; get the file again"});
  auto const map = json::parse(text, source)["weight_map"];
  safetensors_index result;
  std::map<std::string, std::size_t, std::less<>> file_indices;
  for (auto const& [name, file] : map.members()) {
    if (result.tensors.size() == safetensors_maximum_names)
      throw error(
          {"the index '", source, "' lists more than ", safetensors_maximum_names, " tensors; get the file again"});
    auto const file_name = file.string();
    auto position = file_indices.find(file_name);
    if (position == file_indices.end()) {
      if (!valid_file_name(file_name) || !file_name.ends_with(".safetensors"))
        throw error(
            {"the index '", source, "' has the tensor '", name, "' in the file '", file_name,
             "', which is not a name of letters, digits, '.', '_' and '-' that ends with .safetensors; get the index "
             "again"});
      position = file_indices.emplace(file_name, result.files.size()).first;
      result.files.emplace_back(file_name);
    }
    result.tensors.push_back({std::string(name), position->second});
  }
  if (result.tensors.empty()) throw error({"the index '", source, "' lists no tensor; get the file again"});
  std::ranges::sort(result.tensors, {}, &entry::name);
  return result;
}

} // namespace constrain::io
