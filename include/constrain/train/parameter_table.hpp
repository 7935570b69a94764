#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/pass/memory_planning.hpp"

#include <algorithm>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Run-time description of a parameter: shape, dtype, and arena offsets of its tensors.
struct parameter_info {
  int name_offset = 0, name_length = 0; // position and length of the name in `parameter_table::names`
  constrain::role role = role::weight;  // decides, for example, whether the parameter is trained and decays
  constrain::shape shape;               // shape of one iteration's full (unsharded) tensor
  std::int64_t shards = 1;              // ranks over which an iteration's tensor is sharded
  dtype type = dtype::f32;              // dtype of the master weight
  std::int64_t iterations = 1;          // of all repeats (loops of the model) around the parameter: a product
  bool stacked = false;                 // whether the parameter is inside a repeat
  initial_value initial;                // distribution of the initial values
  std::int64_t offset = 0;              // arena offset of the parameter, in bytes
  std::int64_t gradient_offset = -1;    // arena offset of the gradient; -1: none (frozen)
  std::int64_t state_offset[op::maximum_state_fields]{-1, -1, -1, -1}; // of the optimizer states; -1: none

  /// Elements of the full tensors of all iterations.
  constexpr std::int64_t elements() const { return iterations * shape.elements(); }
  /// How one iteration's tensor is sharded.
  constexpr shard_map map() const { return {shape.elements(), shards}; }
  /// Elements stored on each rank for all iterations together, padding included.
  constexpr std::int64_t stored() const { return iterations * map().stored(); }
};

/// The `parameter_info` and name of every parameter of a program, in the order in which the model creates them.
template <int count, int characters> struct parameter_table {
  parameter_info parameters[count == 0 ? 1 : count]{}; // `size` entries
  char names[characters == 0 ? 1 : characters]{};      // all names, concatenated
  char const* state_names[op::maximum_state_fields]{}; // names of the optimizer's state fields; null: unnamed
  static constexpr int size = count;

  /// Name of parameter i.
  constexpr std::string_view name(int i) const {
    return {names + parameters[i].name_offset, static_cast<std::size_t>(parameters[i].name_length)};
  }
};

/// Number of parameters of a program.
constexpr int count_parameters(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += is_parameter(info.role) ? 1 : 0;
  return count;
}

/// Length of all parameter names together.
constexpr int count_name_characters(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += is_parameter(info.role) ? info.name.length : 0;
  return count;
}

/// The parameter table of a program whose memory layout is `where`; all entries are empty if the program has a failure.
template <int count, int characters>
constexpr parameter_table<count, characters> make_parameter_table(program const& p, memory_layout const& where) {
  parameter_table<count, characters> table;
  if (!p.failure.ok()) return table;
  std::copy_n(p.state_names, op::maximum_state_fields, table.state_names);
  int next = 0;
  int used = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& info = p.values[v];
    if (!is_parameter(info.role)) continue;
    auto& out = table.parameters[next++];
    out.name_offset = used;
    out.name_length = info.name.length;
    for (char c : p.text(info.name)) table.names[used++] = c;
    out.role = info.role;
    out.shape = info.shards > 1 ? info.full_shape : info.shape;
    out.shards = info.shards;
    out.type = info.type;
    out.iterations = p.iterations(info);
    out.stacked = !info.axes.empty();
    out.initial = info.initial;
    out.offset = where.buffers[v].offset;
    for (int other = 0; other < p.values.size(); ++other) {
      if (p.values[other].belongs_to != v) continue;
      if (p.values[other].role == role::gradient) out.gradient_offset = where.buffers[other].offset;
      if (p.values[other].role == role::state) out.state_offset[p.values[other].field] = where.buffers[other].offset;
    }
  }
  return table;
}

} // namespace constrain
