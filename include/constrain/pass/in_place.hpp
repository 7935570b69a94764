#pragma once

#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether `r` is `from`, or a view of it.
constexpr bool shares_bytes(program const& p, ref r, ref from) {
  while (!(r == from) && p.values[r.value].view) r = p.values[r.value].view.of;
  return r == from;
}

/// Whether node `i` is the last one that refers to the bytes of `from`, itself or through views, and `from` is written
/// in the same iteration of the same loop as node `i`.
constexpr bool dies_at(program const& p, nest const& where, ref from, int i) {
  auto const& info = p.values[from.value];
  if (info.is_loop_carried() || info.accumulates || is_observed(info) || info.role == role::input) return false;
  int const loop = where.parent[i];
  bool defined_here = false;
  for (int j = 0; j < p.nodes.size(); ++j) {
    bool read = false, written = false;
    for (auto const& input : p.nodes[j].inputs) read = read || shares_bytes(p, input, from);
    for (auto const& output : p.nodes[j].outputs) written = written || shares_bytes(p, output, from);
    if (!read && !written) continue;
    if (written && where.parent[j] == loop) defined_here = true;
    if (j > i || !where.contains(loop, j)) return false;
  }
  return defined_here;
}

} // namespace detail

/// Lets output 0 of a call share the bytes of an input that no later node reads, if the op allows it
/// (`op_info::in_place`).
constexpr program in_place(program const& p) {
  if (!p.failure.ok()) return p;
  program out = p;
  nest const where(p);
  for (int i = 0; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (n.kind != node_kind::call || n.op->in_place == 0) continue;
    ref const to = n.outputs[0];
    auto const& target = p.values[to.value];
    if (target.accumulates || is_persistent(target.role) || target.view) continue;
    for (int k = 0; k < n.inputs.size(); ++k) {
      if ((n.op->in_place >> k & 1) == 0) continue;
      auto& source = out.values[n.inputs[k].value];
      bool const same_bytes =
          source.shape.elements() * size_of(source.type) == target.shape.elements() * size_of(target.type);
      if (!same_bytes || source.overwritten_by || source.view || to.value == n.inputs[k].value) continue;
      if (!detail::dies_at(p, where, n.inputs[k], i)) continue;
      source.overwritten_by = to;
      break;
    }
  }
  return out;
}

} // namespace constrain
