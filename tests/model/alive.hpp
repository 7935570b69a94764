#pragma once

#include <constrain/constrain.hpp>

#include <cstdint>
#include <string_view>

namespace constrain::test {

/// Bytes of the values that are kept for the backward pass, that is, alive at the loss. `op`: only of values that this
/// op writes.
template <class trainer> constexpr bytes kept(std::string_view op = {}) {
  auto const& p = trainer::entries::step_program::final;
  auto const& buffers = trainer::entries::step::where.buffers;
  int loss = 0;
  while (p.nodes[loss].kind != node_kind::call ||
         std::string_view(p.nodes[loss].op->name) != "cross_entropy_and_gradient")
    ++loss;
  std::int64_t total = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& b = buffers[v];
    if (p.values[v].role != role::activation || b.offset < 0 || b.born >= loss || b.dies <= loss) continue;
    std::string_view writer;
    for (auto const& n : p.nodes)
      for (auto const& r : n.outputs)
        if (n.kind == node_kind::call && r.value == v) writer = n.op->name;
    if (op.empty() || op == writer) total += b.size;
  }
  return bytes(total);
}

/// The most bytes that are alive at a node of the step, parameters and states included. No layout needs less.
template <class trainer> constexpr bytes most_alive() {
  auto const& p = trainer::entries::step_program::final;
  auto const& where = trainer::entries::step::where;
  std::int64_t most = 0;
  for (int node = 0; node < p.nodes.size(); ++node) {
    std::int64_t alive = where.persistent_end;
    for (int v = 0; v < p.values.size(); ++v) {
      auto const& b = where.buffers[v];
      if (b.offset >= where.persistent_end && b.born <= node && node <= b.dies) alive += b.size;
    }
    most = alive > most ? alive : most;
  }
  return bytes(most);
}

} // namespace constrain::test
