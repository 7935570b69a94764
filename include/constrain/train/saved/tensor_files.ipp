#pragma once

#include "constrain/train/saved/tensor_files.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/io/dtype.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/safetensors_writer.hpp"
#include "constrain/program/print.hpp"
#include "constrain/train/tensor_view.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The shape of a stack of row-major matrices [rows, columns].
struct matrix_stack {
  std::int64_t matrices, rows, columns;
  std::int64_t width; // of an element, in bytes

  /// Transposes each matrix of `from`: `to` becomes a stack of matrices [columns, rows].
  [[gnu::cold]] void transpose(std::byte const* from, std::byte* to) const {
    for (std::int64_t m = 0; m < matrices; ++m, from += rows * columns * width, to += rows * columns * width)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          std::memcpy(to + (j * rows + i) * width, from + (i * columns + j) * width, static_cast<std::size_t>(width));
  }
};

/// Adds the file tensors of the parameter, state or setting `name`. The name in the file is `name`, unless `names`
/// lists a different name. If the listed name has a '*', a placeholder for the iteration, each iteration becomes a
/// tensor; otherwise one tensor holds all iterations, except in a file of an earlier version, in which a '*' in `name`
/// is a placeholder too. `saved`: as in `weight_tensors`. Throws `error` if `names` transposes a parameter that is not
/// a matrix.
[[gnu::cold]] CONSTRAIN_INLINE void add_file_tensors(std::vector<file_tensor>& tensors, tensor_info const& info,
                                                     std::string name, stored_names names,
                                                     io::safetensors_files const* saved) {
  stored_name const* entry = nullptr;
  for (auto const& n : names)
    if (n.name == name) entry = &n;
  auto const rank = info.shape.rank;
  if (entry != nullptr && entry->transposed && rank != 2)
    throw error({"the weight format transposes '", name, "', which has ", rank,
                 rank == 1 ? " dimension" : " dimensions",
                 "; set .transposed only for parameters with two dimensions"});
  if (entry != nullptr) name = entry->stored;
  auto const star = name.find('*');
  auto const name_of = [&](std::int64_t iteration) {
    return concat({name.substr(0, star), iteration, name.substr(star + 1)});
  };
  // Earlier versions took a '*' in the model's own names for a placeholder, too.
  auto const is_earlier = [&] { return saved != nullptr && !saved->find(name) && saved->find(name_of(0)); };
  bool const per_iteration = star != std::string::npos && (entry != nullptr || is_earlier());
  for (std::int64_t iteration = 0; iteration < (per_iteration ? info.iterations : 1); ++iteration) {
    file_tensor t{&info, iteration, per_iteration ? 1 : info.iterations, entry != nullptr && entry->transposed,
                  false, {}};
    t.tensor.name = per_iteration ? name_of(iteration) : name;
    t.tensor.dtype = io::name_in_files(info.type);
    if (info.stacked && !per_iteration) t.tensor.shape.push_back(info.iterations);
    for (int i = 0; i < rank; ++i) t.tensor.shape.push_back(info.shape.extent[t.transposed ? rank - 1 - i : i]);
    tensors.push_back(std::move(t));
  }
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::vector<file_tensor> weight_tensors(parameter_list const& list, stored_names names,
                                                                       io::safetensors_files const* saved) {
  std::vector<file_tensor> tensors;
  for (int i = 0; i < list.size; ++i) detail::add_file_tensors(tensors, list.parameters[i], list.name(i), names, saved);
  return tensors;
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<file_tensor> state_tensors(parameter_list const& list,
                                                                      io::safetensors_files const* saved) {
  std::vector<file_tensor> tensors;
  for (int i = 0; i < list.states_size; ++i)
    detail::add_file_tensors(tensors, list.states[i],
                             concat({list.name(list.states[i].parameter), ".", list.name(list.states[i])}), {}, saved);
  for (int i = 0; i < list.settings_size; ++i) {
    auto name = concat({"setting.", list.name(list.settings[i])});
    // A state of a parameter in a scope "setting", or an earlier setting, may already have this name.
    auto const exists = [&] {
      for (auto const& t : tensors)
        if (t.tensor.name == name) return true;
      return false;
    };
    while (exists()) name = concat({"setting.", name});
    detail::add_file_tensors(tensors, list.settings[i], name, {}, saved);
    tensors.back().optional = true;
  }
  return tensors;
}

[[gnu::cold]] CONSTRAIN_INLINE gathered_tensors::gathered_tensors(std::vector<file_tensor> tensors, arena& memory,
                                                                  communicator& group)
    : tensors_(std::move(tensors)) {
  std::byte const* data = nullptr;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto& t = tensors_[i];
    // The tensors of one parameter are consecutive, so each parameter is gathered once.
    if (i == 0 || t.info != tensors_[i - 1].info) data = full_tensor(t, memory, group);
    auto const iteration_bytes = t.info->shape.elements() * size_of(t.info->type);
    t.tensor.bytes = {data + t.first * iteration_bytes, t.bytes()};
  }
}

[[gnu::cold]] CONSTRAIN_INLINE auto gathered_tensors::shards(std::size_t maximum_bytes) const -> std::vector<shard> {
  std::vector<shard> result;
  std::size_t remaining_bytes = 0; // bytes that the last shard can still take
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto const bytes = tensors_[i].bytes();
    if (result.empty() || bytes > remaining_bytes) {
      result.push_back({i, 0});
      remaining_bytes = maximum_bytes;
    }
    ++result.back().count;
    remaining_bytes -= std::min(remaining_bytes, bytes);
  }
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string gathered_tensors::index_of(std::vector<shard> const& file_shards,
                                                                      std::vector<std::string> const& files) const {
  if (auto const i = io::detail::duplicate_name(tensors_.size(),
                                                [&](auto t) -> std::string_view { return tensors_[t].tensor.name; }))
    throw error({"the tensor name '", tensors_[*i].tensor.name, "' occurs twice; give every tensor its own name"});
  std::size_t total = 0;
  for (auto const& t : tensors_) total += t.bytes();
  io::json_writer json;
  json.object();
  json.object("metadata").member("total_size", total).end();
  json.object("weight_map");
  for (std::size_t k = 0; k < file_shards.size(); ++k)
    for (std::size_t i = 0; i < file_shards[k].count; ++i)
      json.member(tensors_[file_shards[k].first + i].tensor.name, files[k]);
  json.end().end();
  return json.text();
}

[[gnu::cold]] CONSTRAIN_INLINE void gathered_tensors::write(io::output_file& out, shard file_shard) const {
  std::vector<io::tensor> tensors;
  for (std::size_t i = 0; i < file_shard.count; ++i) tensors.push_back(tensors_[file_shard.first + i].tensor);
  std::vector<std::byte> buffer;
  std::span<io::tensor const> const views{std::as_const(tensors).data(), tensors.size()};
  // Hugging Face Transformers requires the metadata "format".
  io::write_safetensors(out, views, {{"format", "pt"}}, [&](std::size_t i) -> std::span<std::byte const> {
    auto const& t = tensors_[file_shard.first + i];
    if (!t.transposed) return t.tensor.bytes;
    buffer.resize(t.bytes());
    auto const& shape = t.info->shape;
    detail::matrix_stack const in_arena{t.iterations, shape.extent[0], shape.extent[1], size_of(t.info->type)};
    in_arena.transpose(t.tensor.bytes.data(), buffer.data());
    return {std::as_const(buffer).data(), buffer.size()};
  });
}

[[gnu::cold]] CONSTRAIN_INLINE std::byte const* gathered_tensors::full_tensor(file_tensor const& t, arena& memory,
                                                                              communicator& group) {
  auto const& info = *t.info;
  if (info.holders() == 1 && memory.host() != nullptr) return memory.host() + info.offset;
  auto& bytes = full_tensors_.emplace_back(static_cast<std::size_t>(info.elements() * size_of(info.type)));
  tensor_view(memory, info, &group).copy_bytes_to({bytes.data(), bytes.size()});
  return bytes.data();
}

[[gnu::cold]] CONSTRAIN_INLINE void take_tensor(file_tensor const& t, std::span<std::byte const> bytes, arena& memory,
                                                communicator& group) {
  auto const width = size_of(t.info->type);
  std::vector<std::byte> transposed;
  if (t.transposed) {
    transposed.resize(bytes.size());
    detail::matrix_stack const in_file{t.iterations, t.info->shape.extent[1], t.info->shape.extent[0], width};
    in_file.transpose(bytes.data(), transposed.data());
    bytes = {std::as_const(transposed).data(), transposed.size()};
  }
  memory.mark_changed(t.info->offset);
  auto const full = t.info->shape.elements(), stored = t.info->map().stored();
  for (std::int64_t iteration = 0; iteration < t.iterations; ++iteration)
    t.info->for_each_run(group.rank(), [&](stored_run const& run) {
      memory.write(t.info->offset + ((t.first + iteration) * stored + run.stored_begin) * width,
                   bytes.data() + (iteration * full + run.begin) * width, run.length * width);
    });
}

} // namespace constrain
