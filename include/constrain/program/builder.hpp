#pragma once

#include "constrain/base/utf8.hpp"
#include "constrain/program/extents.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/reach.hpp"

#include <initializer_list>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace refusals {

/// The name of a layer, a parameter, a setting or an optimizer state is not UTF-8.
template <diagnosis d> struct name_is_not_utf8 {
  static_assert(d.ok(), "the name of a layer, a parameter, a setting or an optimizer state is not UTF-8 at its byte "
                        "`got`, counted from 0, but saved runs contain it as JSON; encode the name in UTF-8");
};

} // namespace refusals

/// A program under construction: the program so far, the loops and the layer around the next node, and functions that
/// append values, loops and calls.
struct builder {
  constrain::program program; // the program so far
  axis_list enclosing{};      // axes of the loops around the next node, outermost first
  dtype real = dtype::f32;    // type of new parameters, and of inputs and labels that are not ids
  name_ref scope{};           // scope of the layer being built, such as "block.mlp"; parameter names begin with it
  int called_from = 0;        // source line of the outermost layer or repeat being built; 0: none
  /// Whether `add_checked` checks the elements of only one instance of an activation. True while a model is written:
  /// all instances of attention's probabilities together may be too large, but flash attention does not store the
  /// probabilities. The pass `select_attention` checks all instances.
  bool checks_one_instance = false;

  /// Adds `axis` to `enclosing`: the next nodes are in a loop over it. Loops nested deeper than `axis_list::capacity`
  /// are refused.
  constexpr void enter(int axis) {
    if (!enclosing.push_back(axis))
      program.fail({why::program_too_large, 0, called_from, axis_list::capacity, axis_list::capacity + 1});
  }
  /// Removes the innermost axis from `enclosing`: the next nodes come after its loop. Refused: an empty `enclosing`.
  constexpr void leave() {
    if (enclosing.empty()) program.fail({why::loops_do_not_nest, 0, called_from});
    else enclosing.pop_back();
  }

  /// Opens a loop over an axis: the nodes appended until close() are its body. `reversed`: whether the last iteration
  /// runs first. Loops nested deeper than `axis_list::capacity` are refused.
  constexpr void open(int axis, bool reversed) {
    program.begin_loop(axis, reversed);
    enter(axis);
  }
  /// Opens a loop over each axis in `axes` that has no open loop, and returns the number of loops opened.
  constexpr int open_all(axis_list const& axes) {
    int opened = 0;
    for (int axis : axes)
      if (!is_open(axis)) open(axis, false), ++opened;
    return opened;
  }
  /// Ends the `count` innermost loops. Refused: fewer open loops.
  constexpr void close(int count = 1) {
    for (int k = 0; k < count; ++k) {
      program.end_loop();
      leave();
    }
  }

  /// Refuses the program if `name` is not UTF-8. `line`: source line of the layer, parameter, setting or state with
  /// this name.
  constexpr void check_name(std::string_view name, int line) {
    auto const invalid = find_invalid_utf8(name);
    if (invalid != name.size())
      program.fail(diagnosis_with<refusals::name_is_not_utf8>(line, called_from, 0, static_cast<int>(invalid)));
  }

  /// Adds the name "scope.name", without the '.' if either is empty, and returns it. If the capacity of the program's
  /// names would be exceeded, refuses the program and returns an empty name. Also refused: a name that is not UTF-8.
  /// `line`: source line of the parameter or layer with this name.
  constexpr name_ref add_name(std::string_view name, int line) {
    check_name(name, line);
    auto const added = program.names.add(program.text(scope), name);
    if (added.length == 0 && (scope.length > 0 || !name.empty()))
      program.fail({why::program_too_large, line, called_from, name_pool::capacity, name_pool::capacity + 1});
    return added;
  }

  /// Adds a value and returns its index. If `check_extents` refuses the value's extents, refuses the program and sets
  /// the extents to 1, so that later shape rules can still compute with them.
  constexpr int add_checked(value_info info) {
    auto checked = info;
    if (checks_one_instance && info.role == role::activation) checked.axes = {}, checked.loop_carried_axis = -1;
    auto failure = check_extents(program, checked);
    if (!failure.ok()) {
      failure.called_from = called_from;
      program.fail(failure);
      for (auto& extent : info.shape.extent) extent = 1;
    }
    return program.add_value(info);
  }

  /// Refuses the program if a call at source line `line` would read `r` from a loop that does not enclose the call.
  constexpr void check_reach(ref r, int line) {
    if (!is_in_reach(program, r, enclosing))
      program.fail({why::value_left_its_repeat, line, called_from, program.values[r.value].line, line});
  }

  /// Adds a value with one instance per iteration of the loops around the next node, and returns its index. A
  /// loop-carried value has n + 1 instances for the n iterations of `loop_carried_axis`; -1: it is not loop-carried.
  /// `line`: source line of the call or declaration; 0: none.
  constexpr int new_value(operand_type type, role r, int line, int loop_carried_axis = -1) {
    value_info info;
    info.type = type.type;
    info.role = r;
    info.shape = type.shape;
    info.axes = enclosing;
    info.line = line;
    info.loop_carried_axis = loop_carried_axis;
    return add_checked(info);
  }

  /// The number of instances of a value that the next call works on: the product of the extents of the value's axes
  /// without an open loop.
  constexpr std::int64_t instances(value_info const& info) const { return program.instances(info, enclosing); }
  /// Whether a loop over the axis, or over an axis that was split from it, encloses the next node.
  constexpr bool is_open(int axis) const { return program.is_open(axis, enclosing); }

  /// Type and shape of one instance of `r`.
  constexpr operand_type type_of(ref r) const { return {program.values[r.value].type, program.values[r.value].shape}; }

  /// Appends the node `n` as a call to the op `info` and returns it with its outputs. The op's shape rule gives the
  /// types and shapes of the outputs; outputs that `n.outputs` lacks or leaves empty become new values. If the rule
  /// refuses the inputs, the program is refused, and the node gets no new outputs.
  constexpr node append(op_info const& info, node n) {
    n.op = &info;
    n.called_from = called_from;
    // Only calls that draw random numbers get a key, so that adding any other node does not change the numbers. A
    // gradient that draws the numbers of its forward call has that call's key.
    if (info.draws_random && n.random_key == 0) n.random_key = ++program.random_keys;
    operand_types types;
    for (auto const& input : n.inputs) types.push_back(type_of(input));
    auto const result = info.infer(types, n.attributes);
    if (result.reason != why::nothing) program.fail(result.at(n.line, called_from));
    for (int j = 0; j < result.outputs.size(); ++j) {
      if (j == n.outputs.size()) n.outputs.push_back({});
      if (n.outputs[j]) continue;
      auto const scratch_role = info.exchanges ? role::communication : role::workspace;
      auto const r = (info.workspace >> j & 1) != 0 ? scratch_role : role::activation;
      n.outputs[j] = {new_value(result.outputs[j], r, n.line), at::current};
    }
    program.add_node(n);
    return n;
  }

  /// Like `append`, for the op type `op`: outputs that `outputs` lacks or leaves empty become new values. `line`:
  /// source line where the model calls the operation; 0: none.
  template <class op>
  constexpr node call(std::initializer_list<ref> inputs, std::initializer_list<ref> outputs = {},
                      options_of<op> const& options = {}, int line = 0) {
    return call_with(info_of<op>, inputs, outputs, pack(options), line);
  }

  /// Like `call`, with packed options.
  constexpr node call_with(op_info const& info, std::initializer_list<ref> inputs, std::initializer_list<ref> outputs,
                           attributes const& options, int line) {
    node n;
    n.attributes = options;
    n.line = line;
    for (auto const& input : inputs) add_input(n, input);
    for (auto const& output : outputs) add_output(n, output);
    return append(info, n);
  }
  /// Adds `r` to the inputs of `n`. Refused: more inputs than a node can have.
  constexpr void add_input(node& n, ref r) {
    if (!n.inputs.push_back(r))
      program.fail({why::too_many_operands, n.line, called_from, node::maximum_inputs, node::maximum_inputs + 1});
  }
  /// Adds `r` to the outputs of `n`. Refused: more outputs than a node can have.
  constexpr void add_output(node& n, ref r) {
    if (!n.outputs.push_back(r))
      program.fail({why::too_many_operands, n.line, called_from, node::maximum_outputs, node::maximum_outputs + 1});
  }
};

} // namespace constrain
