#pragma once

#include "constrain/io/safetensors_index.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/safetensors_header.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace constrain::inline CONSTRAIN_VARIANT::io {

namespace detail {

/// For each of `names`, the index of the first that equals it.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::uint32_t> first_equal(std::vector<std::string_view> const& names) {
  std::vector<std::uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0u);
  constrain::detail::heap_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return names[a] < names[b] || (names[a] == names[b] && a < b); });
  std::vector<std::uint32_t> first(names.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    bool const repeated = k > 0 && names[order[k]] == names[order[k - 1]];
    first[order[k]] = repeated ? first[order[k - 1]] : order[k];
  }
  return first;
}

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE auto safetensors_index::find(std::string_view name) const -> entry const* {
  auto const position = std::lower_bound(tensors.begin(), tensors.end(), name,
                                         [](entry const& e, std::string_view sought) { return e.name < sought; });
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
  std::vector<std::string_view> file_of; // by tensor, in the order of the index
  for (auto const& [name, file] : map.members()) {
    if (result.tensors.size() == safetensors_maximum_names)
      throw error(
          {"the index '", source, "' lists more than ", safetensors_maximum_names,
           " tensors, the most that this library reads; use a model with fewer tensors"});
    file_of.push_back(file.string());
    if (!valid_file_name(file_of.back()) || !file_of.back().ends_with(".safetensors"))
      throw error(
          {"the index '", source, "' has the tensor '", name, "' in the file '", file_of.back(),
           "', which is not a name of at most 128 letters, digits, '.', '_' and '-' that ends with .safetensors and "
           "does not begin with '.'; give safetensors files with such names, and an index of them"});
    result.tensors.push_back({std::string(name), 0});
  }
  if (result.tensors.empty()) throw error({"the index '", source, "' lists no tensor; get the file again"});
  auto const first_of = detail::first_equal(file_of);
  for (std::size_t i = 0; i < file_of.size(); ++i) {
    if (first_of[i] == i) result.files.emplace_back(file_of[i]);
    result.tensors[i].file = first_of[i] == i ? result.files.size() - 1 : result.tensors[first_of[i]].file;
  }
  constrain::detail::heap_sort(result.tensors, [](entry const& a, entry const& b) { return a.name < b.name; });
  return result;
}

} // namespace constrain::io
