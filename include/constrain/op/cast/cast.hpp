#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y = x in another type. Attribute 0: the dtype. The pass `mixed_precision` inserts this op. It needs no gradient
/// rule: the gradient of a compute copy goes to the parameter's buffer directly.
struct cast {
  static constexpr char const* name = "cast";
  static constexpr bool reads_shards = true;

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    return inferred::one(static_cast<dtype>(a.integer[0]), in[0].shape);
  }
};

} // namespace constrain::op
