#pragma once

#include "constrain/op/linear/linear.hpp"
#include "constrain/pass/fuse/uses.hpp"
#include "constrain/pass/missing_kernels.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The fused ops that `fuse_bias_gradient` can put into `p`, each once.
constexpr fixed_vector<op_label const*, program::maximum_nodes> bias_gradient_ops(program const& p) {
  fixed_vector<op_label const*, program::maximum_nodes> ops;
  for (auto const& n : p.nodes) {
    if (n.kind != node_kind::call || !n.op->has_bias_gradient) continue;
    bool is_known = false;
    for (auto const* op : ops) is_known = is_known || op->identity == n.op->with_bias_gradient->identity;
    if (!is_known) ops.push_back(n.op->with_bias_gradient->label);
  }
  return ops;
}

/// Fuses the element-wise gradient at node i with the bias gradient that reads its output, if no node between the two
/// nodes reads or writes the gradient of the bias. Does nothing if `avoided` contains the fused op. Returns whether the
/// nodes were fused.
constexpr bool fuse_bias_gradient(builder& out, int i, op_set const& avoided) {
  auto const& p = out.program;
  if (p.nodes[i].kind != node_kind::call || !p.nodes[i].op->has_bias_gradient) return false;
  if (avoided.contains(*p.nodes[i].op->with_bias_gradient)) return false;
  auto fused = p.nodes[i];
  int const j = reader_of(p, fused.outputs[0], info_of<op::linear_bias_gradient>, 0);
  if (!in_same_iteration(p, i, j) || touched_between(p, p.nodes[j].outputs[0], i, j)) return false;
  fused.outputs.push_back(p.nodes[j].outputs[0]);
  fuse_at(out, i, *fused.op->with_bias_gradient, fused, j);
  return true;
}

} // namespace constrain::detail
