#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The error of a program with a loop without an end, an end without a loop, or loops nested deeper than
/// `axis_list::capacity`; `why::nothing` if there is none.
constexpr diagnosis check_loops(program const& p) {
  int depth = 0;
  for (auto const& n : p.nodes) {
    if (n.kind == node_kind::call) continue;
    depth += n.kind == node_kind::loop ? 1 : -1;
    if (depth < 0) return {why::loops_do_not_nest, n.line, n.called_from, 0, depth};
    if (depth > axis_list::capacity) return {why::program_too_large, 0, 0, axis_list::capacity, depth};
  }
  return {depth == 0 ? why::nothing : why::loops_do_not_nest};
}

/// The loop nest of a program: the parent and the end of each node. The loops must nest (`check_loops`).
struct nest {
  static constexpr int root = -1; // the parent of nodes outside all loops

  int parent[program::maximum_nodes]{}; // the loop node around each node; for an `end` node, the parent of its loop
  int end[program::maximum_nodes]{};    // the `end` node of each loop node; for any other node, the node itself

  /// The loop nest of `p`; later changes to `p` do not update it.
  constexpr explicit nest(program const& p) {
    int innermost = root;
    for (int i = 0; i < p.nodes.size(); ++i) {
      end[i] = i;
      if (p.nodes[i].kind == node_kind::end) {
        end[innermost] = i;
        innermost = parent[innermost];
        parent[i] = innermost;
      } else {
        parent[i] = innermost;
        if (p.nodes[i].kind == node_kind::loop) innermost = i;
      }
    }
  }

  /// Whether loop `outer` (or the root) contains node i.
  constexpr bool contains(int outer, int i) const {
    if (outer == root) return true;
    return outer < i && i < end[outer];
  }

  /// The innermost loop around both nodes, or the root; `a` itself if `a` is a loop around `b`, but not if `a` is `b`.
  constexpr int common(int a, int b) const {
    while (!contains(a, b)) a = parent[a];
    return a;
  }

  /// The child of loop `outer` that is or contains node i.
  constexpr int child(int outer, int i) const {
    while (parent[i] != outer) i = parent[i];
    return i;
  }

  /// The number of loops around node i.
  constexpr int depth(int i) const {
    int result = 0;
    for (int loop = parent[i]; loop != root; loop = parent[loop]) ++result;
    return result;
  }
};

namespace detail {

/// The innermost loop around node i over the value's last axis, or over an axis that was split from it; for a value
/// without axes, the loop over micro-batches. Returns the root if no such loop is around node i.
constexpr int level_of(program const& p, nest const& loops, value_info const& info, int i) {
  for (int loop = loops.parent[i]; loop != nest::root; loop = loops.parent[loop]) {
    int const axis = p.nodes[loop].axis;
    if (info.axes.empty() ? axis == p.micro_batches : p.is_part_of(axis, info.axes.back())) return loop;
  }
  return nest::root;
}

/// The axes of loop `level` and of the loops around it, outermost first.
constexpr axis_list axes_at(program const& p, nest const& loops, int level) {
  axis_list inside_out, axes;
  for (int loop = level; loop != nest::root; loop = loops.parent[loop]) inside_out.push_back(p.nodes[loop].axis);
  for (int k = inside_out.size() - 1; k >= 0; --k) axes.push_back(inside_out[k]);
  return axes;
}

/// Whether a node in [begin, end) writes the value.
constexpr bool is_written_in(program const& p, int value, int begin, int end) {
  for (int k = begin; k < end; ++k)
    for (auto const& output : p.nodes[k].outputs)
      if (output.value == value) return true;
  return false;
}

} // namespace detail

} // namespace constrain
