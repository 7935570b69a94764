#pragma once

#include "constrain/pass/fuse/bias_gradient.hpp"
#include "constrain/pass/fuse/linear_cross_entropy.hpp"
#include "constrain/pass/fuse/residual_layer_norm.hpp"
#include "constrain/policy/fusion.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Peephole fusion: replaces a group of nodes by one node that moves or stores fewer bytes, if no other node reads the
/// values that the new node does not write. Each pattern is a function in a file of pass/fuse/. The head (the linear
/// layer that computes the logits) is fused with the loss only if the logits take `fusion.smallest_logits` bytes or
/// more. Unless `fusion.fuses`, the program does not change.
constexpr program fuse(program const& p, slot_of::fusion const& fusion) {
  if (!fusion.fuses || !p.failure.ok()) return p;
  program out = p;
  for (int i = 0; i < out.nodes.size(); ++i)
    if (detail::fuse_linear_cross_entropy(out, i, fusion.smallest_logits) || detail::fuse_add_layer_norm(out, i) ||
        detail::fuse_layer_norm_gradient_add(out, i) || detail::fuse_bias_gradient(out, i))
      i = -1; // indices have changed: start again
  return out;
}

} // namespace constrain
