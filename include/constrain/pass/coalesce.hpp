#pragma once

#include "constrain/op/copy/copy.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/rewrite.hpp"

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

/// Every operand that is `from` becomes `to`.
constexpr void rename(program& p, ref from, ref to) {
  for (auto& n : p.nodes) {
    for (auto& r : n.inputs)
      if (r == from) r = to;
    for (auto& r : n.outputs)
      if (r == from) r = to;
  }
}

} // namespace detail

/// Removes copies: the value is written in its last place from the start.
constexpr program coalesce(program const& p) {
  if (!p.failure.ok()) return p;
  program renamed = p;
  nest const where(p);
  bool removed[program::maximum_nodes]{};
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < p.nodes.size(); ++i) {
      if (removed[i] || !detail::can_coalesce(renamed, where, i)) continue;
      detail::rename(renamed, renamed.nodes[i].inputs[0], renamed.nodes[i].outputs[0]);
      // Neither reads nor writes anything any more.
      renamed.nodes[i].inputs.count = renamed.nodes[i].outputs.count = 0;
      changed = removed[i] = true;
    }
  }
  return rewrite(renamed, [&](builder& out, node const& n, int i) {
    if (!removed[i]) out.program.add_node(n);
  });
}

} // namespace constrain
