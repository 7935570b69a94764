#pragma once

#include "constrain/pass/nest.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Whether node i reads or writes a value.
constexpr bool refers_to(program const& p, int i, int value) {
  for (auto const& input : p.nodes[i].inputs)
    if (input.value == value) return true;
  for (auto const& output : p.nodes[i].outputs)
    if (output.value == value) return true;
  return false;
}

/// The node after which the parameter of a gradient can be updated, since the gradient is complete and no later node
/// reads the parameter. All loops around the node run over the parameter's axes and contain all references to the
/// gradient, so that no node reads an iteration's gradient after that iteration's update. -1: no node refers to the
/// gradient.
constexpr int node_before_update(program const& p, nest const& loops, int gradient) {
  auto const& parameter_axes = p.values[gradient].axes;
  int level = nest::root - 1, last = -1; // level: the innermost loop around all references so far; initially none
  for (int i = 0; i < p.nodes.size(); ++i) {
    if (!refers_to(p, i, gradient)) continue;
    level = level < nest::root ? loops.parent[i] : loops.common(level, i);
    last = i;
  }
  if (last < 0) return -1;
  for (int i = last + 1; i < p.nodes.size(); ++i)
    if (refers_to(p, i, p.values[gradient].belongs_to)) last = i;
  while (!loops.contains(level, last)) level = loops.parent[level];
  // Leave loops over other axes: each of their iterations adds to the gradient.
  for (int loop = level; loop != nest::root; loop = loops.parent[loop]) {
    bool is_separate = false;
    for (int axis : parameter_axes) is_separate = is_separate || p.is_part_of(p.nodes[loop].axis, axis);
    if (!is_separate) level = loops.parent[loop];
  }
  return loops.end[loops.child(level, last)];
}

} // namespace constrain::detail
