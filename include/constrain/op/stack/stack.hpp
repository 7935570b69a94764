#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Concatenates, along dimension 0, the instances of x from all iterations of a loop: x [rows, ...] -> [iterations *
/// rows, ...]. The call must come after the loop. The pass `loop_over_rows` inserts this op.
struct stack {
  struct options {
    std::int64_t iterations = 1; // iterations of the loop
  };
  static constexpr char const* name = "stack";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto s = in[0].shape;
    s.extent[0] *= o.iterations;
    return inferred::one(in[0].type, s);
  }
  /// The cost for one instance of x: pass/cost.hpp multiplies it by the number of instances.
  static constexpr cost cost_of(operand_types const& in, operand_types const&) {
    auto const bytes = static_cast<double>(in[0].shape.elements() * size_of(in[0].type));
    return {.flops = 0, .bytes_read = bytes, .bytes_written = bytes};
  }
};

} // namespace constrain::op
