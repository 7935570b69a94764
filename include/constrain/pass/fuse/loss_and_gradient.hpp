#pragma once

#include "constrain/op/constant/constant.hpp"
#include "constrain/op/cross_entropy_and_gradient/cross_entropy_and_gradient.hpp"
#include "constrain/pass/fuse/uses.hpp"
#include "constrain/pass/missing_kernels.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The node between node i and node j that writes `r` as a constant, in the iteration of node i. (Such a node reads
/// only the type and the shape of its input, so it can run before node i.) -1: no node between the two writes `r`; -2:
/// another node does, or several do.
constexpr int constant_between(program const& p, ref r, int i, int j) {
  int writer = -1;
  for (int k = i + 1; k < j; ++k)
    if (p.nodes[k].outputs.contains(r)) writer = writer == -1 ? k : -2;
  if (writer < 0) return writer;
  return is_call(p, writer, info_of<op::constant_like>) && in_same_iteration(p, i, writer) ? writer : -2;
}

/// Fuses the cross-entropy at node i with its gradient, if only the gradient reads the logsumexp of the rows, and no
/// node between the two nodes reads or writes the result of the gradient or writes the gradient of the loss. If the
/// gradient of the loss is a constant, a node between the two may write it; that node then runs before node i. Does
/// nothing if `avoided` contains the fused op. Returns whether the nodes were fused.
constexpr bool fuse_loss_and_gradient(builder& out, int i, op_set const& avoided) {
  auto& p = out.program;
  bool const is_unregularized = is_call(p, i, info_of<op::cross_entropy>);
  if (!is_unregularized && !is_call(p, i, info_of<op::regularized_cross_entropy>)) return false;
  if (avoided.contains(info_of<op::cross_entropy_and_gradient>)) return false;
  node const loss = p.nodes[i];
  auto const& gradient_op =
      is_unregularized ? info_of<op::cross_entropy_gradient> : info_of<op::regularized_cross_entropy_gradient>;
  int const j = reader_of(p, loss.outputs[1], gradient_op, 3);
  if (!in_same_iteration(p, i, j) || !read_by_only(p, loss.outputs[1], {j})) return false;
  node const gradient = p.nodes[j];
  ref const loss_gradient = gradient.inputs[0];
  bool const same_operands = gradient.inputs[1] == loss.inputs[0] && gradient.inputs[2] == loss.inputs[1] &&
                             gradient.inputs[4] == loss.inputs[2];
  int const constant = constant_between(p, loss_gradient, i, j);
  if (!same_operands || constant == -2 || touched_between(p, gradient.outputs[0], i, j)) return false;
  if (constant >= 0 && !(out.type_of(loss_gradient) == out.type_of(loss.inputs[2]))) return false;
  node fused = loss;
  fused.inputs.push_back(loss_gradient);
  fused.outputs.count = 0;
  for (auto const& output : {gradient.outputs[0], loss.outputs[0]}) fused.outputs.push_back(output);
  fuse_at(out, i, info_of<op::cross_entropy_and_gradient>, fused, j);
  if (constant >= 0) {
    // Before node i, there is no loss yet, so the constant takes type and shape from the inverse label count.
    node constant_node = p.nodes[constant];
    constant_node.inputs[0] = loss.inputs[2];
    for (int k = constant; k > i; --k) p.nodes[k] = p.nodes[k - 1];
    p.nodes[i] = constant_node;
  }
  return true;
}

} // namespace constrain::detail
