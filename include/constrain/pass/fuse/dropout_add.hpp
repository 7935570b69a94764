#pragma once

#include "constrain/op/dropout_add/dropout_add.hpp"
#include "constrain/pass/fuse/uses.hpp"
#include "constrain/pass/missing_kernels.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Fuses the dropout at node i with the add that is the only reader of its result, if no node between the two nodes
/// reads or writes the dropout's input. Does nothing if `avoided` contains the fused op. Returns whether the nodes were
/// fused.
constexpr bool fuse_dropout_add(builder& out, int i, op_set const& avoided) {
  auto const& p = out.program;
  if (!is_call(p, i, info_of<op::dropout>) || avoided.contains(info_of<op::dropout_add>)) return false;
  node const dropout = p.nodes[i];
  auto const dropped_out = dropout.outputs[0];
  for (int k : {0, 1}) {
    int const j = reader_of(p, dropped_out, info_of<op::add>, k);
    if (!in_same_iteration(p, i, j) || !read_by_only(p, dropped_out, {j})) continue;
    auto const addend = p.nodes[j].inputs[1 - k];
    if (addend == dropped_out || touched_between(p, dropout.inputs[0], i, j)) continue;
    auto fused = p.nodes[j];
    fused.random_key = dropout.random_key;
    fused.inputs.count = 0;
    for (auto const& input : {addend, dropout.inputs[0], dropout.inputs[1]}) fused.inputs.push_back(input);
    fuse_at(out, j, info_of<op::dropout_add>, fused, i);
    return true;
  }
  return false;
}

} // namespace constrain::detail
