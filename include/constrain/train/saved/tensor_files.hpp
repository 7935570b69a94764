#pragma once

#include "constrain/io/dtype.hpp"
#include "constrain/io/safetensors.hpp"
#include "constrain/io/safetensors_writer.hpp"
#include "constrain/model/weight_format.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/tensor_view.hpp"

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A trainer's parameter table, independent of the trainer's type.
struct parameter_list {
  parameter_info const* parameters = nullptr; // `size` entries
  int size = 0;                               // number of parameters
  char const* names = nullptr;                // all names, concatenated

  /// Name of parameter i.
  std::string name(int i) const {
    return {names + parameters[i].name_offset, static_cast<std::size_t>(parameters[i].name_length)};
  }
};

/// One tensor of a safetensors file: a parameter or one of its optimizer states, for all iterations (stacked) or one.
struct file_tensor {
  parameter_info const* info = nullptr;   // the parameter
  std::int64_t offset = 0;                // in the arena, of the first iteration
  std::int64_t first = 0, iterations = 1; // range of iterations in this tensor
  bool transposed = false;                // the file has [in, out] for [out, in]
  io::tensor tensor;                      // name, dtype and shape in the file; `bytes` is set by `gathered_tensors`

  /// Size in the file.
  std::size_t bytes() const {
    return static_cast<std::size_t>(iterations * info->shape.elements() * size_of(info->type));
  }
};

namespace detail {

/// Transposes a row-major [rows, columns] matrix of elements of `width` bytes.
inline void transpose_elements(std::byte const* from, std::int64_t rows, std::int64_t columns, std::int64_t width,
                               std::byte* to) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(to + (j * rows + i) * width, from + (i * columns + j) * width, static_cast<std::size_t>(width));
}

/// Adds the file tensors of one parameter or state: under its stored name if `names` has one, where '*' stands for the
/// iteration, which then is a tensor of its own.
[[gnu::noinline, gnu::cold]] inline void add_file_tensors(std::vector<file_tensor>& tensors, parameter_info const& info,
                                                          std::string name, std::int64_t offset, stored_names names) {
  stored_name const* known = nullptr;
  for (auto const& n : names)
    if (n.name == name) known = &n;
  if (known != nullptr) name = known->stored;
  auto const star = name.find('*');
  bool const apart = star != std::string::npos;
  for (std::int64_t iteration = 0; iteration < (apart ? info.iterations : 1); ++iteration) {
    file_tensor t{&info, offset, iteration, apart ? 1 : info.iterations, known != nullptr && known->transposed, {}};
    t.tensor.name = apart ? name.substr(0, star) + std::to_string(iteration) + name.substr(star + 1) : name;
    t.tensor.dtype = io::name_in_files(info.type);
    if (info.stacked && !apart) t.tensor.shape.push_back(info.iterations);
    auto const rank = info.shape.rank;
    for (int i = 0; i < rank; ++i) t.tensor.shape.push_back(info.shape.extent[t.transposed ? rank - 1 - i : i]);
    tensors.push_back(std::move(t));
  }
}

} // namespace detail

/// The tensors of a file with all weights.
[[gnu::noinline, gnu::cold]] inline std::vector<file_tensor> weight_tensors(parameter_list const& list,
                                                                            stored_names names) {
  std::vector<file_tensor> tensors;
  for (int i = 0; i < list.size; ++i)
    detail::add_file_tensors(tensors, list.parameters[i], list.name(i), list.parameters[i].offset, names);
  return tensors;
}

/// The tensors of a file with all optimizer states, named "<parameter>.state<field>".
[[gnu::noinline, gnu::cold]] inline std::vector<file_tensor> state_tensors(parameter_list const& list) {
  std::vector<file_tensor> tensors;
  for (int i = 0; i < list.size; ++i)
    for (int field = 0; field < op::maximum_state_fields; ++field)
      if (auto const& info = list.parameters[i]; info.state_offset[field] >= 0)
        detail::add_file_tensors(tensors, info, list.name(i) + ".state" + std::to_string(field),
                                 info.state_offset[field], {});
  return tensors;
}

/// Full tensors in host memory, ready to be written. Sharded tensors are all-gathered and device tensors are copied;
/// tensors that the host can address are only viewed. Construction is collective over `group`.
class gathered_tensors {
public:
  /// Collective where tensors are cut over ranks.
  gathered_tensors(std::vector<file_tensor> what, arena& memory, communicator& group) : tensors_(std::move(what)) {
    std::byte const* data = nullptr;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto& t = tensors_[i];
      if (i == 0 || t.offset != tensors_[i - 1].offset) data = full_tensor(t, memory, group);
      auto const iteration_bytes = t.info->shape.elements() * size_of(t.info->type);
      t.tensor.bytes = {data + t.first * iteration_bytes, t.bytes()};
    }
  }

  /// Writes them as a safetensors file. Throws `error`.
  [[gnu::noinline, gnu::cold]] void write(io::output_file& out) const {
    std::vector<io::tensor> tensors;
    for (auto const& t : tensors_) tensors.push_back(t.tensor);
    std::vector<std::byte> buffer;
    io::write_safetensors(out, tensors, {{"format", "pt"}}, [&](std::size_t i) -> std::span<std::byte const> {
      auto const& t = tensors_[i];
      if (!t.transposed) return t.tensor.bytes;
      buffer.resize(t.bytes());
      detail::transpose_elements(t.tensor.bytes.data(), t.info->shape.extent[0], t.info->shape.extent[1],
                                 size_of(t.info->type), buffer.data());
      return buffer;
    });
  }

private:
  std::byte const* full_tensor(file_tensor const& t, arena& memory, communicator& group) {
    auto const& info = *t.info;
    if (info.shards == 1 && memory.host() != nullptr) return memory.host() + t.offset;
    auto& bytes = full_tensors_.emplace_back(static_cast<std::size_t>(info.elements() * size_of(info.type)));
    tensor_view const view(memory, t.offset, info.type, info.iterations, info.stacked, info.shape,
                           info.shards > 1 ? &group : nullptr);
    view.copy_bytes_to(bytes);
    return bytes.data();
  }

  std::vector<file_tensor> tensors_;
  std::vector<std::vector<std::byte>> full_tensors_;
};

/// Copies one tensor from its file's layout into the arena (this rank's shard of it). `bytes` must already have the
/// parameter's dtype.
[[gnu::noinline, gnu::cold]] inline void take_tensor(file_tensor const& t, std::span<std::byte const> bytes,
                                                     arena& memory, communicator& group) {
  auto const map = t.info->map();
  auto const shard = t.info->shards > 1 ? group.rank() : 0;
  auto const width = size_of(t.info->type);
  std::vector<std::byte> turned;
  if (t.transposed) {
    turned.resize(bytes.size());
    detail::transpose_elements(bytes.data(), t.info->shape.extent[1], t.info->shape.extent[0], width, turned.data());
    bytes = turned;
  }
  for (std::int64_t iteration = 0; iteration < t.iterations; ++iteration)
    memory.write(t.offset + (t.first + iteration) * map.stored() * width,
                 bytes.data() + (iteration * map.elements + map.begin(shard)) * width, map.length(shard) * width);
}

} // namespace constrain
