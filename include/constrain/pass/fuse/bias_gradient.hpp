#pragma once

#include "constrain/op/linear/linear.hpp"
#include "constrain/pass/fuse/uses.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Fuses the element-wise gradient at node i with the bias gradient that reads its output. Returns whether the pattern
/// matched.
constexpr bool fuse_bias_gradient(program& p, int i) {
  if (p.nodes[i].kind != node_kind::call || !p.nodes[i].op->has_bias_gradient) return false;
  auto fused = p.nodes[i];
  int const j = reader_of(p, fused.outputs[0], info_of<op::linear_bias_gradient>, 0);
  if (!in_same_iteration(p, i, j) || touched_between(p, p.nodes[j].outputs[0], i, j)) return false;
  fused.outputs.push_back(p.nodes[j].outputs[0]);
  fuse_at(p, i, *fused.op->with_bias_gradient, fused, {j});
  return true;
}

} // namespace constrain::detail
