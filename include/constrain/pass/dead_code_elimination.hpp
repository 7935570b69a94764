#pragma once

#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether the value is a result, which the host reads after the run, or keeps its bytes for later runs. The host may
/// also read gradients, but they do not count as observed.
constexpr bool is_observed(value_info const& info) { return info.role == role::result || is_persistent(info.role); }

/// Dead-code elimination: removes calls whose results cannot reach an observed value, and loops left empty.
constexpr program dead_code_elimination(program const& p) {
  if (!p.failure.ok()) return p;
  bool live[program::maximum_values]{};
  for (int v = 0; v < p.values.size(); ++v) live[v] = is_observed(p.values[v]);
  auto const is_live = [&](node const& n) {
    for (auto const& output : n.outputs)
      if (live[output.value]) return true;
    return false;
  };
  // A node that reads a loop-carried value can precede the node that writes it (in the previous iteration), so one
  // sweep may not be enough.
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = p.nodes.size() - 1; i >= 0; --i) {
      auto const& n = p.nodes[i];
      if (n.kind != node_kind::call || !is_live(n)) continue;
      for (auto const& input : n.inputs)
        if (!live[input.value]) changed = live[input.value] = true;
    }
  }
  auto out = p;
  auto& nodes = out.nodes;
  int kept = 0;
  for (int i = 0; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (n.kind == node_kind::call && !is_live(n)) continue;
    bool const empty_loop = n.kind == node_kind::end && nodes[kept - 1].kind == node_kind::loop;
    if (empty_loop) {
      --kept;
      continue;
    }
    if (kept != i) nodes[kept] = n;
    ++kept;
  }
  nodes.count = kept;
  return out;
}

} // namespace constrain
