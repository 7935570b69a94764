#pragma once

#include "constrain/pass/fuse/bias_gradient.hpp"
#include "constrain/pass/fuse/linear_cross_entropy.hpp"
#include "constrain/pass/fuse/residual_layer_norm.hpp"
#include "constrain/policy/fusion.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Peepholes: groups of nodes become one that moves or keeps fewer bytes, where nobody else reads what lies between
/// them. Each pattern is a function of a program and a node, in a file of its own below pass/fuse/. Logits of less than
/// `.smallest_logits` bytes stay whole.
constexpr program fuse(program const& p, slot_of::fusion const& fusion) {
  if (!fusion.fuses || !p.failure.ok()) return p;
  static_assert(sizeof(detail::named<op::linear_cross_entropy>) +
                    sizeof(detail::named<op::linear_cross_entropy_forward_backward>) +
                    sizeof(detail::named<op::add_layer_norm>) + sizeof(detail::named<op::layer_norm_gradient_add>) >
                0);
  program out = p;
  for (int i = 0; i < out.nodes.size(); ++i)
    if (detail::fuse_linear_cross_entropy(out, i, fusion.smallest_logits) || detail::fuse_add_layer_norm(out, i) ||
        detail::fuse_layer_norm_gradient_add(out, i) || detail::fuse_bias_gradient(out, i))
      i = -1; // the nodes have moved
  return out;
}

} // namespace constrain
