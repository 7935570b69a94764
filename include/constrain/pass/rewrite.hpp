#pragma once

#include "constrain/program/builder.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A builder with everything in program `p` (values, axes, names, ...) except the nodes.
constexpr builder without_nodes(program const& p) {
  builder out;
  out.program = p;
  out.program.nodes.count = 0;
  return out;
}

/// Removes node i of `p` for each i for which `removed[i]` is true.
constexpr void remove_nodes(program& p, bool const (&removed)[program::maximum_nodes]) {
  int kept = 0;
  for (int i = 0; i < p.nodes.size(); ++i) {
    if (removed[i]) continue;
    if (kept != i) p.nodes[kept] = p.nodes[i];
    ++kept;
  }
  p.nodes.count = kept;
}

/// Calls f(out, node, i) for each node of `source` with an index i in [begin, end), in order. f appends the node's
/// replacement to `out`: the node itself to keep it, nothing to remove it. During each call to f, `out.enclosing` holds
/// the axes that it held when `rewrite_nodes` was called, followed by the axes of the loops in [begin, end) around the
/// node, so that new values get these axes; the nodes at the beginning and end of a loop count as outside of the loop.
/// Refused: loops nested deeper than `axis_list::capacity`, and an end without a loop.
template <class function>
constexpr void rewrite_nodes(builder& out, program const& source, int begin, int end, function const& f) {
  for (int i = begin; i < end; ++i) {
    auto const& n = source.nodes[i];
    if (n.kind == node_kind::end) out.leave();
    f(out, n, i);
    if (n.kind == node_kind::loop) out.enter(n.axis);
  }
}

/// The program `p` with each node replaced by the nodes that f(out, node, i) appends for it (see `rewrite_nodes`). A
/// refused program is returned unchanged.
template <class function> constexpr program rewrite(program const& p, function const& f) {
  if (!p.failure.ok()) return p;
  auto out = without_nodes(p);
  rewrite_nodes(out, p, 0, p.nodes.size(), f);
  return out.program;
}

} // namespace constrain
