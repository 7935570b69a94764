#pragma once

#include "constrain/op/copy/copy.hpp"
#include "constrain/pass/nest.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether the copy at node `i` can be removed by writing its source into its target's buffer.
constexpr bool can_coalesce(program const& p, nest const& where, int i) {
  auto const& n = p.nodes[i];
  if (!calls(n, info_of<op::copy>)) return false;
  ref const from = n.inputs[0];
  ref const to = n.outputs[0];
  auto const& source = p.values[from.value];
  auto const& target = p.values[to.value];
  if (source.role != role::activation || source.is_loop_carried() || source.accumulates || target.accumulates)
    return false;
  if (source.type != target.type) return false;

  // The loop whose next iteration overwrites the target: later readers of the source would read a new value.
  int const loop = where.parent[i];
  int next_loop = p.nodes.size();
  for (int j = i + 1; j < p.nodes.size(); ++j)
    if (p.nodes[j].kind == node_kind::loop && where.parent[j] == loop) {
      next_loop = j;
      break;
    }
  bool defined_here = false;
  for (int j = 0; j < p.nodes.size(); ++j) {
    if (p.nodes[j].outputs.contains(from)) {
      // Nothing may read the target between the definition of the source and the copy: it would find the source there.
      if (where.parent[j] != loop || j > i) return false;
      for (int k = j; k < i; ++k)
        for (auto const& input : p.nodes[k].inputs)
          if (input == to) return false;
      defined_here = true;
    }
    if (j == i || !p.nodes[j].inputs.contains(from)) continue;
    // A reader in the same iteration of the same loop finds in the target what it found in the source. If the copy
    // initializes a loop-carried value, that holds only for readers before that loop.
    bool const same_iteration = where.contains(loop, j);
    bool const enters_loop = to.where == at::initial || to.where == at::final;
    if (!same_iteration || (enters_loop && j > next_loop)) return false;
  }
  return defined_here;
}

} // namespace detail

/// Copy elision: removes copies, so that the value is written into the copy's target in the first place.
constexpr program coalesce(program const& p) {
  if (!p.failure.ok()) return p;
  program out = p;
  for (bool changed = true; changed;) {
    changed = false;
    nest const where(out);
    for (int i = 0; i < out.nodes.size(); ++i) {
      if (!detail::can_coalesce(out, where, i)) continue;
      ref const from = out.nodes[i].inputs[0];
      ref const to = out.nodes[i].outputs[0];
      program next = out;
      next.nodes.count = 0;
      for (int j = 0; j < out.nodes.size(); ++j) {
        if (j == i) continue;
        auto n = out.nodes[j];
        for (auto& r : n.inputs)
          if (r == from) r = to;
        for (auto& r : n.outputs)
          if (r == from) r = to;
        next.add_node(n);
      }
      out = next;
      changed = true;
      break;
    }
  }
  return out;
}

} // namespace constrain
