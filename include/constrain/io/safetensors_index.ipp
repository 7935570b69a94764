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
  auto const at = std::ranges::lower_bound(tensors, name, {}, &entry::name);
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_index safetensors_index::parse(std::string_view text,
                                                                          std::string const& where) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  if (text.size() > most_bytes)
    throw error({"the index '", where, "' has ", text.size(), " bytes, but an index has at most ", most_bytes,
                 "; get the file again"});
  auto const map = json::parse(text, where)["weight_map"];
  safetensors_index result;
  std::map<std::string, std::size_t, std::less<>> position;
  for (auto const& [name, file] : map.members()) {
    if (result.tensors.size() == safetensors_maximum_names)
      throw error(
          {"the index '", where, "' lists more than ", safetensors_maximum_names, " tensors; get the file again"});
    auto const found = file.string();
    auto at = position.find(found);
    if (at == position.end()) {
      if (!valid_file_name(found) || !found.ends_with(".safetensors"))
        throw error(
            {"the index '", where, "' has the tensor '", name, "' in the file '", found,
             "', which is not a name of letters, digits, '.', '_' and '-' that ends with .safetensors; get the index "
             "again"});
      at = position.emplace(found, result.files.size()).first;
      result.files.emplace_back(found);
    }
    result.tensors.push_back({std::string(name), at->second});
  }
  if (result.tensors.empty()) throw error({"the index '", where, "' lists no tensor; get the file again"});
  std::ranges::sort(result.tensors, {}, &entry::name);
  return result;
}

} // namespace constrain::io
