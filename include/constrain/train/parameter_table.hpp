#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/pass/memory_planning.hpp"

#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What a running trainer needs to know of one parameter.
struct parameter_info {
  int name_offset = 0, name_length = 0;
  constrain::role role = role::weight;
  constrain::shape shape;  // of one iteration, whole
  std::int64_t shards = 1; // over how many ranks an iteration is cut
  dtype type = dtype::f32;
  std::int64_t iterations = 1; // stacked by repeats
  bool stacked = false;
  initial_value initial;
  std::int64_t offset = 0;
  std::int64_t gradient_offset = -1;
  std::int64_t state_offset[op::maximum_state_fields]{-1, -1, -1, -1};

  /// Of all iterations.
  constexpr std::int64_t elements() const { return iterations * shape.elements(); }
  /// How one iteration is cut.
  constexpr shard_map map() const { return {shape.elements(), shards}; }
  /// Elements that one rank stores.
  constexpr std::int64_t stored() const { return iterations * map().stored(); }
};

/// The parameters of a program, without the program.
template <int count, int characters> struct parameter_table {
  parameter_info parameters[count == 0 ? 1 : count]{};
  char names[characters == 0 ? 1 : characters]{};
  static constexpr int size = count;

  /// The dotted name of parameter i.
  constexpr std::string_view name(int i) const {
    return {names + parameters[i].name_offset, static_cast<std::size_t>(parameters[i].name_length)};
  }
};

/// How many parameters a program has.
constexpr int count_parameters(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += is_parameter(info.role) ? 1 : 0;
  return count;
}

/// How many characters all their names have.
constexpr int count_name_characters(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += is_parameter(info.role) ? info.name.length : 0;
  return count;
}

/// The parameters of a program with where they lie, in the program's order.
template <int count, int characters>
constexpr parameter_table<count, characters> make_parameter_table(program const& p, memory_layout const& where) {
  parameter_table<count, characters> table;
  if (!p.failure.ok()) return table;
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
