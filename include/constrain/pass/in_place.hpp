#pragma once

#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// For each value, the root of its chain of views: the value at the end of the chain, which is not a view.
struct view_roots {
  int root[program::maximum_values]{}; // the root; the value itself if it is not a view
  // Of a root: the first and last node that refer to it, directly or through views.
  int first_use[program::maximum_values]{}, last_use[program::maximum_values]{};

  constexpr explicit view_roots(program const& p) {
    for (int v = 0; v < p.values.size(); ++v) {
      root[v] = v;
      first_use[v] = -1;
      while (p.values[root[v]].view) root[v] = p.values[root[v]].view.of.value;
    }
    for (int i = 0; i < p.nodes.size(); ++i) {
      for (auto const& input : p.nodes[i].inputs) add_use(root[input.value], i);
      for (auto const& output : p.nodes[i].outputs) add_use(root[output.value], i);
    }
  }
  /// Records that node i refers to the root `value`. Nodes must be recorded in order.
  constexpr void add_use(int value, int i) {
    if (first_use[value] < 0) first_use[value] = i;
    last_use[value] = i;
  }
};

/// Whether the call `n` reads `from` at an input that its output 0 must not overwrite.
constexpr bool keeps(node const& n, ref from) {
  for (int k = 0; k < n.inputs.size(); ++k)
    if (n.inputs[k].value == from.value && (n.op->in_place >> k & 1u) == 0) return true;
  return false;
}

/// Whether node `i` may overwrite `from`: node `i` is the last node that refers to `from`, directly or through views,
/// and reads neither a view of `from` nor `from` at an input that output 0 must not overwrite; all nodes that refer to
/// `from` are in the loop around node `i`, and one of them writes `from` in each iteration. False for loop-carried
/// values, accumulators, inputs and observed values.
constexpr bool dies_at(program const& p, nest const& loops, view_roots const& roots, ref from, int i) {
  auto const& info = p.values[from.value];
  if (info.is_loop_carried() || info.accumulates || is_observed(info) || info.role == role::input) return false;
  if (roots.last_use[from.value] != i || keeps(p.nodes[i], from)) return false;
  int const loop = loops.parent[i];
  bool defined_here = false;
  for (int j = roots.first_use[from.value]; j <= i; ++j) {
    bool read = false, written = false, read_by_view = false;
    for (auto const& input : p.nodes[j].inputs)
      if (roots.root[input.value] == from.value) read = true, read_by_view = read_by_view || input.value != from.value;
    for (auto const& output : p.nodes[j].outputs) written = written || roots.root[output.value] == from.value;
    if (!read && !written) continue;
    if (written && loops.parent[j] == loop) defined_here = true;
    if (!loops.contains(loop, j) || (j == i && read_by_view)) return false;
  }
  return defined_here;
}

/// Like `in_place`, but changes `p` itself, which must not be refused.
constexpr void overwrite_inputs(program& p) {
  nest const loops(p);
  view_roots const roots(p);
  for (int i = 0; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (n.kind != node_kind::call || n.op->in_place == 0) continue;
    ref const to = n.outputs[0];
    auto const& target = p.values[to.value];
    if (target.accumulates || is_persistent(target.role) || target.view) continue;
    for (int k = 0; k < n.inputs.size(); ++k) {
      if ((n.op->in_place >> k & 1) == 0) continue;
      auto& source = p.values[n.inputs[k].value];
      // The kernel may write element i after it has read element i of the source, so both must lie at the same bytes.
      bool const same_bytes =
          source.shape.elements() == target.shape.elements() && size_of(source.type) == size_of(target.type);
      if (!same_bytes || source.overwritten_by || source.view || to.value == n.inputs[k].value) continue;
      if (!dies_at(p, loops, roots, n.inputs[k], i)) continue;
      source.overwritten_by = to;
      break;
    }
  }
}

} // namespace detail

/// Lets output 0 of a call overwrite an input that no later node uses, if the op allows this (`op_info::in_place`), and
/// the two have the same number of elements and bytes. Accumulators, persistent values and views are left out; so are
/// inputs that are loop-carried, computed outside of the innermost loop around the call, written by the host, or read
/// after the run.
constexpr program in_place(program const& p) {
  program out = p;
  if (p.failure.ok()) detail::overwrite_inputs(out);
  return out;
}

} // namespace constrain
