#pragma once

#include "constrain/program/extents.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/reach.hpp"

#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A program while it is written: where the next node goes, and what encloses it.
struct builder {
  constrain::program program;
  axis_list enclosing;     // the loops around the next node
  dtype real = dtype::f32; // of parameters and activations
  name_ref scope;          // "block.mlp": of the layer being built
  int called_from = 0;     // where the innermost layer or repeat was called
  int random_keys = 0;

  /// Begins a loop; nodes up to `close` are in it.
  constexpr void open(int axis, bool reversed) {
    program.begin_loop(axis, reversed);
    if (!enclosing.push_back(axis))
      program.fail({why::program_too_large, 0, called_from, axis_list::capacity, axis_list::capacity + 1});
  }
  /// Ends the innermost loop.
  constexpr void close() {
    program.end_loop();
    enclosing.pop_back();
  }

  /// Adds a value. One with impossible extents is refused, and stands there with others that can be computed with.
  constexpr int add_checked(value_info info) {
    auto failure = check_extents(program, info);
    if (!failure.ok()) {
      failure.called_from = called_from;
      program.fail(failure);
      for (auto& extent : info.shape.extent) extent = 1;
    }
    return program.add_value(info);
  }

  /// Refuses a call in `line` that reads a value of a loop which does not enclose it.
  constexpr void check_reach(ref r, int line) {
    if (!is_in_reach(program, r, enclosing))
      program.fail({why::value_left_its_repeat, line, called_from, program.values[r.value].line, line});
  }

  /// A value told apart by the loops around the next node.
  constexpr int new_value(operand_type type, role r, int line, int carried_along = -1) {
    value_info info;
    info.type = type.type;
    info.role = r;
    info.shape = type.shape;
    info.axes = enclosing;
    info.line = line;
    info.carried_along = carried_along;
    return add_checked(info);
  }

  /// Type and shape of one instance.
  constexpr operand_type type_of(ref r) const { return {program.values[r.value].type, program.values[r.value].shape}; }

  /// Appends a call of `info`; outputs that `n.outputs` leaves open become new values.
  constexpr node append(op_info const& info, node n) {
    n.op = &info;
    n.called_from = called_from;
    operand_types types;
    for (auto const& input : n.inputs) types.push_back(type_of(input));
    auto const result = info.infer(types, n.attributes);
    if (result.reason != why::nothing) program.fail({result.reason, n.line, called_from, result.expected, result.got});
    for (int j = 0; j < result.outputs.size(); ++j) {
      if (j == n.outputs.size()) n.outputs.push_back({});
      if (n.outputs[j]) continue;
      auto const r = (info.workspace >> j & 1) != 0 ? role::workspace : role::activation;
      n.outputs[j] = {new_value(result.outputs[j], r, n.line), at::current};
    }
    program.add_node(n);
    return n;
  }
};

} // namespace constrain
