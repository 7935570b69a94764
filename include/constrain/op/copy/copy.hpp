#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y = x. If y is an accumulator, the first write to an instance of y in a run of the program overwrites the instance,
/// and later writes add to it. `repeat`, `task` and passes insert copies; the pass `coalesce` removes a copy if the
/// node that computes x can write into y instead.
struct copy {
  static constexpr char const* name = "copy";
  static constexpr bool any_gradient_type = true;
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) { b.add(0, b.gradient()); }
};

} // namespace constrain::op
