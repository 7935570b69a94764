#pragma once

#include "constrain/op/copy/copy.hpp"
#include "constrain/pass/nest.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether the copy at node `i` can go, its source being written where the copy would put it.
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

  // The loop whose next iteration overwrites the target: readers must see the source before that.
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
      // Something else may not stand in the target between the definition and the copy.
      if (where.parent[j] != loop || j > i) return false;
      for (int k = j; k < i; ++k)
        for (auto const& input : p.nodes[k].inputs)
          if (input == to) return false;
      defined_here = true;
    }
    if (j == i || !p.nodes[j].inputs.contains(from)) continue;
    // Readers in the same iteration of the same loop see the target as they saw the source. Before a loop that carries
    // the target on, only readers in front of that loop do.
    bool const same_iteration = where.contains(loop, j);
    bool const enters_loop = to.where == at::initial || to.where == at::final;
    if (!same_iteration || (enters_loop && j > next_loop)) return false;
  }
  return defined_here;
}

} // namespace detail

/// Removes copies: the value is written in its last place from the start.
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
