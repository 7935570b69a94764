#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/axis.hpp"
#include "constrain/program/diagnosis.hpp"
#include "constrain/program/name.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/value_info.hpp"

#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The one representation from the model to the plan: nodes in the order they run, with `loop ... end` around those
/// that repeat. Values are assigned once, except those that accumulate and those that persist.
struct program {
  static constexpr int maximum_nodes = 384;
  static constexpr int maximum_values = 512;
  static constexpr int maximum_axes = constrain::maximum_axes;

  fixed_vector<node, maximum_nodes> nodes;
  fixed_vector<value_info, maximum_values> values;
  fixed_vector<axis_info, maximum_axes> axes;
  name_pool names;
  diagnosis failure;

  // What the host writes and reads.
  ref tokens, labels, logits, loss, correct, gradient_squares, clip_coefficient;
  int micro_batches = -1;      // the axis of accumulation; -1 where there is one micro-batch
  bool distributed = false;    // every rank runs it on its own part of the batch
  std::int64_t vocabulary = 0; // how many different tokens the model knows

  /// The characters of a name.
  constexpr std::string_view text(name_ref name) const { return names.text(name); }

  /// Keeps the first failure.
  constexpr void fail(diagnosis d) {
    if (failure.ok()) failure = d;
  }

  /// Adds a value and returns its number. In a full program that is a failure, as with axes and nodes.
  constexpr int add_value(value_info const& info) {
    if (!values.push_back(info)) fail({why::program_too_large, info.line, 0, maximum_values, maximum_values + 1});
    return values.count - 1;
  }
  /// Adds an axis and returns its number.
  constexpr int add_axis(axis_info const& info) {
    if (!axes.push_back(info)) fail({why::program_too_large, 0, 0, maximum_axes, maximum_axes + 1});
    return axes.count - 1;
  }
  /// Appends a node.
  constexpr void add_node(node const& n) {
    if (!nodes.push_back(n)) fail({why::program_too_large, n.line, n.called_from, maximum_nodes, maximum_nodes + 1});
  }
  /// Appends a loop's first line.
  constexpr void begin_loop(int axis, bool reversed) {
    node loop;
    loop.kind = node_kind::loop;
    loop.axis = axis;
    loop.reversed = reversed;
    add_node(loop);
  }
  /// Appends the last line of the innermost loop.
  constexpr void end_loop() {
    node end;
    end.kind = node_kind::end;
    add_node(end);
  }

  /// The node that closes the loop which node `begin` opens.
  constexpr int end_of(int begin) const {
    int depth = 0;
    for (int i = begin; i < nodes.count; ++i) {
      if (nodes[i].kind == node_kind::loop) ++depth;
      if (nodes[i].kind == node_kind::end && --depth == 0) return i;
    }
    return nodes.count;
  }

  /// Whether `axis` is `whole` or a part of it.
  constexpr bool is_part_of(int axis, int whole) const {
    for (; axis >= 0; axis = axes[axis].whole)
      if (axis == whole) return true;
    return false;
  }

  /// Instances of a value that are told apart by its axes alone.
  constexpr std::int64_t iterations(value_info const& info) const {
    std::int64_t product = 1;
    for (int axis : info.axes) product *= axes[axis].extent;
    return product;
  }
};

} // namespace constrain
