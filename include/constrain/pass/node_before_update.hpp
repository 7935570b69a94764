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

/// Whether a node in an outermost forward loop reads the parameter and node i is the reversed loop of this loop.
constexpr bool reverses_reader(program const& p, nest const& loops, int i, int parameter) {
  if (!p.nodes[i].reversed) return false;
  for (int k = 0; k < i; ++k)
    if (p.nodes[loops.child(nest::root, k)].axis == p.nodes[i].axis && refers_to(p, k, parameter)) return true;
  return false;
}

/// The node after which the parameter of a gradient can be updated, because the gradient is complete and no later node
/// reads the parameter. All loops around the node run over the parameter's axes and contain all references to the
/// gradient, so that no node reads an iteration's gradient after that iteration's update. -1: no node refers to the
/// gradient. `recomputes_loops`: whether `recompute` inserts a clone of each outermost forward loop's body into the
/// reversed loop; the clone reads the parameters that the body reads.
constexpr int node_before_update(program const& p, nest const& loops, int gradient, bool recomputes_loops = false) {
  auto const& parameter_axes = p.values[gradient].axes;
  int level = nest::root - 1, last = -1; // level: the innermost loop around all references so far; initially none
  for (int i = 0; i < p.nodes.size(); ++i) {
    if (!refers_to(p, i, gradient)) continue;
    level = level < nest::root ? loops.parent[i] : loops.common(level, i);
    last = i;
  }
  if (last < 0) return -1;
  int const parameter = p.values[gradient].belongs_to;
  for (int i = last + 1; i < p.nodes.size(); ++i)
    if (refers_to(p, i, parameter) || (recomputes_loops && reverses_reader(p, loops, i, parameter))) last = i;
  while (!loops.contains(level, last)) level = loops.parent[level];
  // Go outside of loops over other axes: each of their iterations adds to the gradient.
  for (int loop = level; loop != nest::root; loop = loops.parent[loop]) {
    bool is_separate = false;
    for (int axis : parameter_axes) is_separate = is_separate || p.is_part_of(p.nodes[loop].axis, axis);
    if (!is_separate) level = loops.parent[loop];
  }
  return loops.end[loops.child(level, last)];
}

} // namespace constrain::detail
