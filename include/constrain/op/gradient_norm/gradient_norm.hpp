#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// squares[index] = the sum of a whole gradient's squares, in fixed chunks and in double. The index is attribute 0,
/// the number of gradients attribute 1. Attributes 2 and 3: the elements of one instance and whether to add up in the
/// pieces that as many ranks as there are would hold, for the same bits as a sharded run.
struct square_sum {
  static constexpr char const* name = "square_sum";
  static constexpr unsigned accumulating = 0b1;
  static constexpr bool reads_shards = true;

  static constexpr inferred infer(operand_types const&, attributes const& a) {
    return inferred::one(dtype::f64, shape(a.integer[1]));
  }
};

/// From the squares of all gradients: [norm, scale], the norm over all parameters and what every gradient is multiplied
/// by: min(1, clip_norm / (norm + 1e-6)), 1 without clipping, 0 where a gradient is not finite (the update is skipped).
struct clip {
  static constexpr char const* name = "clip";

  static constexpr inferred infer(operand_types const&, attributes const&) {
    return inferred::one(dtype::f64, shape(2));
  }
};

} // namespace constrain::op
