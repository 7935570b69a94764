#pragma once

#include "constrain/pass/dead_code_elimination.hpp"

#include <initializer_list>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

// Some loops over all nodes in this file read arrays directly, because each call of `operator[]`, `begin` or `calls`,
// and each new reference to a node, would cost compile time with g++ 12.

/// Whether node i is a call to `op`.
constexpr bool is_call(program const& p, int i, op_info const& op) {
  return i >= 0 && p.nodes.elements[i].kind == node_kind::call && p.nodes.elements[i].op->identity == op.identity;
}

/// The only node that writes `r`; -1: none or several.
constexpr int writer_of(program const& p, ref r) {
  int writer = -1;
  for (int i = 0, count = p.nodes.size(); i < count; ++i) {
    if (!p.nodes[i].outputs.contains(r)) continue;
    if (writer >= 0) return -1;
    writer = i;
  }
  return writer;
}

/// The only call to `op` that reads `r` as its input k; -1: none or several.
constexpr int reader_of(program const& p, ref r, op_info const& op, int k) {
  int reader = -1;
  auto const& nodes = p.nodes.elements;
  for (int i = 0, count = p.nodes.count; i < count; ++i) {
    if (nodes[i].kind != node_kind::call || nodes[i].op->identity != op.identity) continue;
    if (nodes[i].inputs.count <= k || !(nodes[i].inputs[k] == r)) continue;
    if (reader >= 0) return -1;
    reader = i;
  }
  return reader;
}

/// Whether only the nodes in `readers` read the value of `r`, and neither the host nor a later run reads it. False for
/// loop-carried values and accumulators.
constexpr bool read_by_only(program const& p, ref r, std::initializer_list<int> readers) {
  auto const& info = p.values[r.value];
  if (info.is_loop_carried() || info.accumulates || is_observed(info)) return false;
  auto const& nodes = p.nodes.elements;
  for (int i = 0, count = p.nodes.count; i < count; ++i)
    for (int k = 0; k < nodes[i].inputs.count; ++k) {
      if (nodes[i].inputs.elements[k].value != r.value) continue;
      bool is_allowed = false;
      for (int reader : readers) is_allowed = is_allowed || reader == i;
      if (!is_allowed) return false;
    }
  return true;
}

/// Whether a node strictly between `begin` and `end` reads or writes `r`.
constexpr bool touched_between(program const& p, ref r, int begin, int end) {
  for (int i = begin + 1; i < end; ++i)
    if (p.nodes[i].inputs.contains(r) || p.nodes[i].outputs.contains(r)) return true;
  return false;
}

/// Whether node j is node i or comes after it, in the same iteration of the same loop. False if j is -1.
constexpr bool in_same_iteration(program const& p, int i, int j) {
  int depth = 0;
  auto const& nodes = p.nodes.elements;
  for (int k = i; k < j && depth >= 0; ++k) {
    if (nodes[k].kind == node_kind::loop) ++depth;
    if (nodes[k].kind == node_kind::end) --depth;
  }
  return i <= j && depth == 0;
}

/// Replaces node i with a call to `op` that has the operands, options, random key and source lines of `fused`, and
/// removes the node with index `removed_node`.
constexpr void fuse_at(builder& out, int i, op_info const& op, node const& fused, int removed_node) {
  out.program.nodes.erase(removed_node);
  auto& nodes = out.program.nodes.elements;
  if (removed_node < i) --i;
  out.enclosing = {};
  for (int k = 0; k < i; ++k) {
    if (nodes[k].kind == node_kind::loop) out.enclosing.push_back(nodes[k].axis);
    if (nodes[k].kind == node_kind::end) out.enclosing.pop_back();
  }
  out.called_from = fused.called_from;
  nodes[i] = out.append(op, fused);
  out.program.nodes.pop_back();
}

} // namespace constrain::detail
