#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y = x, or y += x if y is an accumulator. `repeat` and passes insert copies; the pass `coalesce` removes those that
/// it can.
struct copy {
  static constexpr char const* name = "copy";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) { b.add(0, b.gradient()); }
};

} // namespace constrain::op
