#pragma once

#include "constrain/op/gradient_norm/chunk.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// squares[index] = the sum of a gradient's squares, in double: of each tensor of a stack the chunks of `norm_chunk`
/// elements in their order, then the tensors in theirs. The index is attribute 0, the number of gradients attribute 1.
struct gradient_norm_squared {
  static constexpr char const* name = "gradient_norm_squared";
  static constexpr unsigned accumulating = 0b1;
  static constexpr bool reads_shards = true; // where there are any, the two below take its place

  static constexpr inferred infer(operand_types const&, attributes const& a) {
    return inferred::one(dtype::f64, shape(a.integer[1]));
  }
};

/// The first half of gradient_norm_squared where a rank holds a piece: the sums of its chunks, [tensors, chunks of a
/// piece]. Attribute 0: the tensors of the stack.
struct chunk_squares {
  static constexpr char const* name = "chunk_squares";
  static constexpr bool reads_shards = true;

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    return inferred::one(dtype::f64, shape(a.integer[0], norm_chunks(in[0].shape.elements())));
  }
};

/// The second half: squares[index] from the chunks of all pieces, [pieces, tensors, chunks of a piece], in the order of
/// gradient_norm_squared. Its attributes too.
struct chunk_sum {
  static constexpr char const* name = "chunk_sum";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const&, attributes const& a) {
    return inferred::one(dtype::f64, shape(a.integer[1]));
  }
};

/// From the squares of all gradients: [norm, scale], the norm over all parameters and what every gradient is multiplied
/// by: min(1, clip_norm / (norm + 1e-6)), 1 without clipping, 0 where a gradient is not finite (the update is skipped).
struct clip_coefficient {
  static constexpr char const* name = "clip_coefficient";

  static constexpr inferred infer(operand_types const&, attributes const&) {
    return inferred::one(dtype::f64, shape(2));
  }
};

} // namespace constrain::op
