#pragma once

#include "constrain/op/add_layer_norm/add_layer_norm.hpp"
#include "constrain/op/dropout_add/dropout_add.hpp"
#include "constrain/pass/fuse/uses.hpp"
#include "constrain/pass/missing_kernels.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Fuses the add or op::dropout_add at node i with the layer norm of the sum, if the sum is also used elsewhere (the
/// residual stream), but not as the norm's weight or bias, and no node between the two nodes reads or writes the sum or
/// an input of node i. Does nothing if `avoided` contains the fused op. Returns whether the nodes were fused.
constexpr bool fuse_add_layer_norm(builder& out, int i, op_set const& avoided) {
  auto const& p = out.program;
  bool const has_dropout = is_call(p, i, info_of<op::dropout_add>);
  auto const& op = has_dropout ? info_of<op::dropout_add_layer_norm> : info_of<op::add_layer_norm>;
  if ((!has_dropout && !is_call(p, i, info_of<op::add>)) || avoided.contains(op)) return false;
  auto const sum = p.nodes[i].outputs[0];
  int const j = reader_of(p, sum, info_of<op::layer_norm>, 0);
  if (!in_same_iteration(p, i, j) || read_by_only(p, sum, {j}) || touched_between(p, sum, i, j)) return false;
  if (p.nodes[j].inputs[1] == sum || p.nodes[j].inputs[2] == sum) return false;
  for (auto const& input : p.nodes[i].inputs)
    if (touched_between(p, input, i, j)) return false;
  node fused = p.nodes[j];
  fused.random_key = p.nodes[i].random_key;
  fused.inputs = p.nodes[i].inputs;
  fused.inputs.push_back(p.nodes[j].inputs[1]);
  fused.inputs.push_back(p.nodes[j].inputs[2]);
  fused.outputs = p.nodes[i].outputs;
  for (auto const& output : p.nodes[j].outputs) fused.outputs.push_back(output);
  fuse_at(out, j, op, fused, i);
  return true;
}

/// Fuses the layer-norm gradient at node i with the residual add after it, if only the add reads output 0 of node i,
/// and no node between the two nodes reads or writes the other addend. Does nothing if `avoided` contains the fused op.
/// Returns whether the nodes were fused.
constexpr bool fuse_layer_norm_gradient_add(builder& out, int i, op_set const& avoided) {
  auto const& p = out.program;
  if (!is_call(p, i, info_of<op::layer_norm_gradient>)) return false;
  if (avoided.contains(info_of<op::layer_norm_gradient_add>)) return false;
  node const gradient = p.nodes[i];
  auto const dx = gradient.outputs[0];
  for (int k : {0, 1}) {
    int const j = reader_of(p, dx, info_of<op::add>, k);
    if (!in_same_iteration(p, i, j) || !read_by_only(p, dx, {j})) continue;
    auto const residual = p.nodes[j].inputs[1 - k];
    if (residual == dx || touched_between(p, residual, i, j)) continue;
    auto fused = gradient;
    fused.inputs.count = 0;
    fused.inputs.push_back(residual); // first, so that the pass `in_place` lets the output share the residual's bytes
    for (auto const& input : gradient.inputs) fused.inputs.push_back(input);
    fused.outputs[0] = p.nodes[j].outputs[0];
    fuse_at(out, i, info_of<op::layer_norm_gradient_add>, fused, j);
    return true;
  }
  return false;
}

} // namespace constrain::detail
