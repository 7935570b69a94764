#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Stores a tensor in a parameter or an optimizer state, unless the gradient norm is not finite. Inputs: the full tensor
/// and clip [norm, scale]; the output keeps its bytes if scale is 0. Of a sharded target, each rank stores its shard.
struct assign {
  struct options {
    dtype to = dtype::f32;   // of the target
    std::int64_t shards = 1; // of the target
  };
  static constexpr char const* name = "assign";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    bool const sharded = o.shards != 1;
    return inferred::one(o.to, sharded ? shape(shard_map{in[0].shape.elements(), o.shards}.stored()) : in[0].shape);
  }
};

} // namespace constrain::op
