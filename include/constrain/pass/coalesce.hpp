#pragma once

#include "constrain/op/copy/copy.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The first and last nodes that refer to each value; last < first for an unused value.
struct use_ranges {
  int first[program::maximum_values]{}, last[program::maximum_values]{};

  constexpr explicit use_ranges(program const& p) {
    for (int v = 0; v < p.values.size(); ++v) first[v] = p.nodes.size(), last[v] = -1;
    for (int i = 0; i < p.nodes.size(); ++i) {
      for (auto const& r : p.nodes[i].inputs) add(r.value, i);
      for (auto const& r : p.nodes[i].outputs) add(r.value, i);
    }
  }
  /// Extends the range of a value to node `i`.
  constexpr void add(int value, int i) {
    if (i < first[value]) first[value] = i;
    if (i > last[value]) last[value] = i;
  }
};

/// Whether node `i` is a copy that is not needed if the node that computes the source writes the target instead.
constexpr bool can_coalesce(program const& p, nest const& loops, use_ranges const& uses, int i) {
  auto const& n = p.nodes[i];
  if (!calls(n, info_of<op::copy>)) return false;
  ref const from = n.inputs[0];
  ref const to = n.outputs[0];
  auto const& source = p.values[from.value];
  auto const& target = p.values[to.value];
  if (source.role != role::activation || source.is_loop_carried() || source.accumulates || target.accumulates)
    return false;
  if (source.type != target.type) return false;

  // The next loop after the copy, with the same parent. If the copy initializes a loop-carried value of this loop, the
  // loop may overwrite the target (memory planning may keep only two instances). Nodes in or after the loop must
  // therefore not read the target instead of the source.
  int const loop = loops.parent[i];
  int next_loop = p.nodes.size();
  for (int j = i + 1; j < p.nodes.size(); ++j)
    if (p.nodes[j].kind == node_kind::loop && loops.parent[j] == loop) {
      next_loop = j;
      break;
    }
  bool defined_here = false;
  for (int j = uses.first[from.value]; j <= uses.last[from.value]; ++j) {
    if (p.nodes[j].outputs.contains(from)) {
      // A node that reads the target between the definition of the source and the copy would read the source instead.
      if (loops.parent[j] != loop || j > i) return false;
      for (int k = j; k < i; ++k)
        for (auto const& input : p.nodes[k].inputs)
          if (input == to) return false;
      defined_here = true;
    }
    if (j == i || !p.nodes[j].inputs.contains(from)) continue;
    // A reader in the same iteration of the same loop reads the same value from the target as from the source. If the
    // copy initializes a loop-carried value, this holds only for readers before the next loop.
    bool const same_iteration = loops.contains(loop, j);
    bool const enters_loop = to.where == at::initial || to.where == at::final;
    if (!same_iteration || (enters_loop && j > next_loop)) return false;
  }
  return defined_here;
}

/// Replaces the reference `from` with `to` in the operands of all nodes.
constexpr void rename(program& p, use_ranges& uses, ref from, ref to) {
  for (int i = uses.first[from.value]; i <= uses.last[from.value]; ++i) {
    for (auto& r : p.nodes[i].inputs)
      if (r == from) r = to;
    for (auto& r : p.nodes[i].outputs)
      if (r == from) r = to;
  }
  uses.add(to.value, uses.first[from.value]);
  uses.add(to.value, uses.last[from.value]);
}

/// Like `coalesce`, but changes `p` itself, which must not be refused.
constexpr void coalesce_copies(program& p) {
  nest const loops(p);
  use_ranges uses(p);
  bool removed[program::maximum_nodes]{};
  bool any_removed = false;
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < p.nodes.size(); ++i) {
      if (removed[i] || !can_coalesce(p, loops, uses, i)) continue;
      rename(p, uses, p.nodes[i].inputs[0], p.nodes[i].outputs[0]);
      // Without operands, the removed copy counts neither as a reader nor as a writer when later copies are checked.
      p.nodes[i].inputs.count = p.nodes[i].outputs.count = 0;
      any_removed = changed = removed[i] = true;
    }
  }
  if (any_removed) remove_nodes(p, removed);
}

} // namespace detail

/// Copy coalescing: removes a copy if the node that computes the source can write the target instead.
constexpr program coalesce(program const& p) {
  program out = p;
  if (p.failure.ok()) detail::coalesce_copies(out);
  return out;
}

} // namespace constrain
