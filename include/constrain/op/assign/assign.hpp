#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Stores a tensor in a parameter, an optimizer state or a gradient, unless the gradient norm is not finite. Inputs:
/// the full tensor and clip [norm, scale] (op::clip_coefficient). If scale is 0, the output keeps its value. If the
/// target is sharded, each rank stores its shard.
struct assign {
  struct options {
    dtype to = dtype::f32;           // of an element of the target
    std::int64_t shards = 1;         // of the target
    std::int64_t chunk = norm_chunk; // of the target's shard_map
  };
  static constexpr char const* name = "assign";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const& full = in[0].shape;
    return inferred::one(o.to, o.shards == 1 ? full : shape(shard_map{full.elements(), o.shards, o.chunk}.stored()));
  }
};

} // namespace constrain::op
