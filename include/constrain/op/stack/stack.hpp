#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The instances of a value x of a loop's iterations, one after the other along dimension 0: x [rows, ...] ->
/// [iterations * rows, ...]. A call stands behind the loop. The pass `loop_over_rows` inserts this op.
struct stack {
  struct options {
    std::int64_t iterations = 1; // of the loop
  };
  static constexpr char const* name = "stack";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto s = in[0].shape;
    s.extent[0] *= o.iterations;
    return inferred::one(in[0].type, s);
  }
};

} // namespace constrain::op
