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

/// The indices of `names`, sorted by name. Equal names keep their order.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::uint32_t> order_of(std::vector<std::string_view> const& names) {
  std::vector<std::uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0u);
  constrain::detail::heap_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return names[a] < names[b] || (names[a] == names[b] && a < b); });
  return order;
}

/// For each of `names`, the index of the first equal name.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::uint32_t> first_equal(std::vector<std::string_view> const& names) {
  auto const order = order_of(names);
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
    throw error({"the index '", source, "' has ", text.size(), " bytes, more than the ", maximum_bytes,
                 " that this library reads; get the file again"});
  auto const map = json::parse(text, source)["weight_map"];
  std::vector<std::string_view> names, files; // of each tensor, in the order of the index
  for (auto const& [name, file] : map.members()) {
    if (names.size() == safetensors_maximum_names)
      throw error({"the index '", source, "' lists more than ", safetensors_maximum_names,
                   " tensors, the most that this library reads; use a model with fewer tensors"});
    names.push_back(name), files.push_back(file.string());
    if (!valid_file_name(files.back()) || !files.back().ends_with(".safetensors"))
      throw error(
          {"the index '", source, "' has the tensor '", name, "' in the file '", files.back(),
           "', a name that is not supported; give safetensors files whose names have at most 128 letters, digits, "
           "'.', '_' and '-', end with .safetensors and do not begin with '.', and an index of them"});
  }
  if (names.empty()) throw error({"the index '", source, "' lists no tensor; get the file again"});
  safetensors_index result;
  auto const first = detail::first_equal(files);
  std::vector<std::uint32_t> position(names.size()); // in `result.files`, of each tensor's file
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (first[i] == i) result.files.emplace_back(files[i]);
    position[i] = first[i] == i ? static_cast<std::uint32_t>(result.files.size() - 1) : position[first[i]];
  }
  for (auto const i : detail::order_of(names)) result.tensors.push_back({std::string(names[i]), position[i]});
  return result;
}

} // namespace constrain::io
