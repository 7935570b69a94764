#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Stores a tensor in a parameter or an optimizer state, unless the gradient norm is not finite. Inputs: the full tensor
/// and clip [norm, scale]; the output keeps its bytes if scale is 0. Of a sharded target, each rank stores its shard.
/// Attribute 0: the target's dtype; 1: number of shards.
struct assign {
  static constexpr char const* name = "assign";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    auto const type = static_cast<dtype>(a.integer[0]);
    auto const shards = a.integer[1];
    return inferred::one(type, shards == 1 ? in[0].shape : shape(shard_map{in[0].shape.elements(), shards}.stored()));
  }
};

} // namespace constrain::op
