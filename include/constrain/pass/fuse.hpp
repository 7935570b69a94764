#pragma once

#include "constrain/pass/fuse/bias_gradient.hpp"
#include "constrain/pass/fuse/dropout_add.hpp"
#include "constrain/pass/fuse/loss_and_gradient.hpp"
#include "constrain/pass/fuse/residual_layer_norm.hpp"
#include "constrain/pass/missing_kernels.hpp"
#include "constrain/pass/row_loop.hpp"
#include "constrain/policy/fusion.hpp"

#include <cstddef>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The fused ops that `fuse_bias_gradient` can put into the program `passes::before_fusion()`.
template <class passes> inline constexpr auto bias_gradient_ops_of = bias_gradient_ops(passes::before_fusion());

template <class source, class passes, std::size_t... i> constexpr op_set missing_for_fusion(std::index_sequence<i...>) {
  return missing_of<source, op::add_layer_norm, op::layer_norm_gradient_add, op::dropout_add,
                    op::dropout_add_layer_norm, op::cross_entropy_and_gradient,
                    op_type<bias_gradient_ops_of<passes>.elements[i]>...>();
}

/// The fused ops without a kernel for `source::device` that `fuse` might put into the program
/// `passes::before_fusion()`. Empty unless the fusion policy sets `only_with_kernels`.
template <class source, class passes> constexpr op_set missing_for_fusion() {
  if constexpr (!passes::set::fusion::value.only_with_kernels) return {};
  else
    return missing_for_fusion<source, passes>(
        std::make_index_sequence<static_cast<std::size_t>(bias_gradient_ops_of<passes>.count)>{});
}

} // namespace detail

/// Peephole fusion: replaces a group of nodes with one node that moves or stores fewer bytes, if no other node reads
/// the values that the new node does not write. Each pattern is a function in a file of pass/fuse/. If the logits take
/// at least `fusion.smallest_logits` bytes, and the other conditions of `loop_over_rows` hold, the head and the loss
/// become a loop over rows. Without `fusion.fuses`, the program does not change. `missing`: the fused ops without a
/// kernel. With `fusion.only_with_kernels`, no nodes are fused into a call to one of these ops; the loop over rows does
/// not depend on `missing`.
constexpr program fuse(program const& p, slot_of::fusion const& fusion, op_set const& missing = {}) {
  if (!fusion.fuses || !p.failure.ok()) return p;
  auto const avoided = fusion.only_with_kernels ? missing : op_set{};
  builder out;
  out.program = loop_over_rows(p, fusion.smallest_logits);
  // A fused node may be fused again with an earlier node, so sweep until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < out.program.nodes.size(); ++i)
      while (i < out.program.nodes.size() &&
             (detail::fuse_add_layer_norm(out, i, avoided) || detail::fuse_layer_norm_gradient_add(out, i, avoided) ||
              detail::fuse_bias_gradient(out, i, avoided) || detail::fuse_dropout_add(out, i, avoided) ||
              detail::fuse_loss_and_gradient(out, i, avoided)))
        changed = true;
  }
  return out.program;
}

} // namespace constrain
