#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/op/collective/shard_map.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/pass/memory_planning.hpp"

#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A run of elements that are consecutive in a tensor and stored on one rank.
struct stored_run {
  std::int64_t begin = 0;        // index of the first element in one iteration's full tensor
  std::int64_t stored_begin = 0; // index of this element among the iteration's elements that the rank stores
  std::int64_t length = 0;       // number of elements
};

/// The run-time description of a tensor that persists between steps: name, shape, dtype and offset in the arena. With
/// tensor parallelism, each rank of a tensor group may hold ranges of one dimension. With ZeRO, each rank of a group
/// may hold a shard of the tensor, or of these ranges.
struct tensor_info {
  int name_offset = 0, name_length = 0; // position and length of the name in `parameter_table::names`
  constrain::shape shape;               // shape of one iteration's full (unsharded) tensor
  std::int64_t shards = 1;              // number of ranks over which an iteration's tensor is sharded
  std::int64_t chunk = norm_chunk;      // in elements; each shard that is not empty begins at a multiple of `chunk`
  std::int64_t tensor_ranks = 1;        // number of ranks in a tensor group
  int divided = -1;                     // dimension divided over a tensor group's ranks; -1: none
  part_list parts;                      // if divided: extents of a rank's ranges of the dimension, one range per part
  std::int64_t unused = 0;              // if divided: indices by which the last rank's range is shorter than the others
  dtype type = dtype::f32;              // of an element
  std::int64_t iterations = 1;          // product of the iterations of all repeats (model loops) around the parameter
  bool stacked = false;                 // whether the parameter is inside a repeat
  initial_value initial;                // distribution of the initial values
  std::int64_t offset = 0;              // in the arena, in bytes
  std::int64_t stride = 0;              // distance in elements from one iteration's tensor or shard to the next

  /// Elements of the full tensors of all iterations.
  constexpr std::int64_t elements() const { return iterations * shape.elements(); }
  /// Number of ranks over which tensor parallelism divides the tensor; 1: it is not divided.
  constexpr std::int64_t divisions() const { return divided >= 0 ? tensor_ranks : 1; }
  /// The shape of the ranges of all ranks together: the tensor's shape, including unused elements.
  constexpr constrain::shape ranges() const {
    auto padded = shape;
    if (divided >= 0) padded.extent[divided] += unused;
    return padded;
  }
  /// The sharding of one iteration's tensor, or of a rank's ranges of it.
  constexpr shard_map map() const { return {ranges().elements() / divisions(), shards, chunk}; }
  /// Elements stored on each rank for all iterations together, including padding.
  constexpr std::int64_t stored() const { return iterations * map().stored(); }
  /// Number of ranks that together hold the tensor, with ZeRO and tensor parallelism; 1: every rank holds all of it.
  constexpr std::int64_t holders() const { return shards * divisions(); }
  /// Calls f(run) for each run of elements of one iteration's tensor that a rank stores, in order; a run can be empty.
  /// `rank`: the rank's index in `ranks::storage_group`, where the ranks of a tensor group are consecutive. If there
  /// are more ranks than `holders()`, several ranks store the same elements.
  void for_each_run(int rank, function_ref<void(stored_run const&)> f) const;
};

/// The run-time description of a parameter and of its gradient.
struct parameter_info : tensor_info {
  constrain::role role = role::weight; // purpose of the parameter, such as weight, bias or norm
  std::int64_t gradient_offset = -1;   // arena offset of the gradient; -1: none that the host can read
  dtype gradient_type = dtype::f32;    // of the gradient's elements
  std::int64_t gradient_shards = 1;    // number of ranks over which an iteration's gradient is sharded
  std::int64_t gradient_stride = 0;    // distance in elements from one iteration's gradient or shard to the next

  /// The parameter's gradient. The host must be able to read it: `gradient_offset` >= 0.
  constexpr tensor_info gradient() const {
    tensor_info result = *this;
    result.offset = gradient_offset;
    result.type = gradient_type;
    result.shards = gradient_shards;
    result.stride = gradient_stride;
    return result;
  }
};

/// An optimizer state. Its name is unique within its parameter, for example "exp_avg".
struct state_info : tensor_info {
  int parameter = 0;                  // index of the parameter that the state belongs to
  bool is_average = false;            // whether this state is the average of the parameter (`update_rule::average`)
  bool resets_with_parameter = false; // whether setting the parameter's value resets this state (average, compensation)
};

/// A view of the `parameter_table` of a trainer or an inference object. The view's type is the same for tables of any
/// size.
struct parameter_list {
  parameter_info const* parameters = nullptr; // `size` entries
  int size = 0;                               // number of parameters
  state_info const* states = nullptr;         // `states_size` entries
  int states_size = 0;                        // number of optimizer states of all parameters
  tensor_info const* settings = nullptr;      // `settings_size` entries
  int settings_size = 0;                      // number of settings
  char const* names = nullptr;                // all names, concatenated
  char const* owner = "a trainer";            // owner of the parameters, named in errors

  /// Name of parameter i.
  std::string name(int i) const { return name(parameters[i]); }
  /// Name of a parameter or setting, or of an optimizer state within its parameter.
  std::string name(tensor_info const& t) const {
    return {names + t.name_offset, static_cast<std::size_t>(t.name_length)};
  }
  /// Whether the program has a setting of this name.
  bool has_setting(std::string_view name) const;
};

/// The sizes of a program's parameter table.
struct parameter_counts {
  int parameters = 0; // number of parameters
  int states = 0;     // number of optimizer states of all parameters
  int settings = 0;   // number of settings
  int characters = 0; // length of all names together
};

/// A program's parameters, optimizer states and settings. The parameters have the order in which the model creates
/// them, and the states the order of their parameters.
template <parameter_counts counts> struct parameter_table {
  parameter_info parameters[counts.parameters == 0 ? 1 : counts.parameters]{}; // the first `size` are in use
  state_info states[counts.states == 0 ? 1 : counts.states]{};                 // the first `states_size`
  tensor_info settings[counts.settings == 0 ? 1 : counts.settings]{};          // the first `settings_size`
  char names[counts.characters == 0 ? 1 : counts.characters]{};                // all names, concatenated
  static constexpr int size = counts.parameters, states_size = counts.states, settings_size = counts.settings;

  /// Name of parameter i.
  constexpr std::string_view name(int i) const {
    return {names + parameters[i].name_offset, static_cast<std::size_t>(parameters[i].name_length)};
  }
  /// A view of this table, without the sizes in its type.
  constexpr parameter_list view() const {
    return {parameters, size, states, states_size, settings, settings_size, names};
  }
};

/// The sizes of a program's parameter table.
constexpr parameter_counts count_parameters(program const& p) {
  parameter_counts counts;
  for (auto const& info : p.values) {
    if (!is_parameter(info.role) && info.role != role::state && info.role != role::setting) continue;
    (info.role == role::state ? counts.states : info.role == role::setting ? counts.settings : counts.parameters) += 1;
    counts.characters += info.name.length;
  }
  return counts;
}

namespace detail {

/// Fills the entry of value `v`, and appends the value's name to `names`, of which `name_characters` characters are in
/// use.
constexpr void fill_tensor_info(tensor_info& out, program const& p, memory_layout const& where, int v, char* names,
                                int& name_characters) {
  auto const& info = p.values[v];
  out.name_offset = name_characters;
  out.name_length = info.name.length;
  for (char c : p.text(info.name)) names[name_characters++] = c;
  out.shape = info.shape_in_full();
  out.shards = info.layout == layout::flat ? p.shards : 1;
  // An optimizer state is divided in the same way as its parameter.
  auto const& owner = info.role == role::state ? p.values[info.belongs_to] : info;
  out.tensor_ranks = p.tensor_ranks;
  out.divided = owner.divided;
  if (owner.divided >= 0) {
    out.parts = p.parts_along(owner, out.shape, owner.divided);
    out.unused = owner.unused;
    out.shape = p.shape_of_group(owner, out.shape);
  }
  out.chunk = norm_chunk / info.block;
  out.type = info.type;
  out.iterations = p.iterations(info);
  out.stacked = !info.axes.empty();
  out.initial = info.initial;
  out.offset = where.buffers[v].offset;
  out.stride = info.shape.elements();
}

/// Fills in the offset, dtype and sharding of a parameter's gradient `v`, if the host can read the gradient.
constexpr void fill_gradient(parameter_info& out, program const& p, memory_layout const& where, int v) {
  if (p.values[v].ends_with_update) return;
  int const root = root_of(p, {v, at::current}).value;
  out.gradient_offset = where.buffers[root].offset;
  out.gradient_type = p.values[v].type;
  out.gradient_shards = p.values[v].layout == layout::flat ? p.shards : 1;
  out.gradient_stride = p.values[root].shape.elements();
}

} // namespace detail

/// The parameter table of a planned program, whose tensors lie in the arena as in `where`. If the program has a
/// failure, all entries have default values.
template <parameter_counts counts>
constexpr parameter_table<counts> make_parameter_table(program const& p, memory_layout const& where) {
  parameter_table<counts> table;
  if (!p.failure.ok()) return table;
  int next_parameter = 0, next_state = 0, next_setting = 0, name_characters = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    if (p.values[v].role == role::setting)
      detail::fill_tensor_info(table.settings[next_setting++], p, where, v, table.names, name_characters);
    if (!is_parameter(p.values[v].role)) continue;
    auto& out = table.parameters[next_parameter];
    detail::fill_tensor_info(out, p, where, v, table.names, name_characters);
    out.role = p.values[v].role;
    for (int dependent = 0; dependent < p.values.size(); ++dependent) {
      if (p.values[dependent].belongs_to != v) continue;
      if (p.values[dependent].role == role::gradient) detail::fill_gradient(out, p, where, dependent);
      if (p.values[dependent].role != role::state) continue;
      auto& state = table.states[next_state++];
      detail::fill_tensor_info(state, p, where, dependent, table.names, name_characters);
      state.parameter = next_parameter;
      state.is_average = p.values[dependent].is_average;
      state.resets_with_parameter = p.values[dependent].resets_with_parameter;
    }
    ++next_parameter;
  }
  return table;
}

/// The number of elements of all parameters in a parameter table.
template <parameter_counts counts> constexpr std::int64_t count_elements(parameter_table<counts> const& table) {
  std::int64_t total = 0;
  for (int i = 0; i < table.size; ++i) total += table.parameters[i].elements();
  return total;
}

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/parameter_table.ipp"
#endif
