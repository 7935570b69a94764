#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y has the type and shape of x, and every element equals `value`, converted to this type. The elements of x are not
/// read.
struct constant_like {
  struct options {
    double value = 0; // value of every element
  };
  static constexpr char const* name = "constant";
  static constexpr char const* layouts = "# -> -";

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

/// y has the type and shape of x, and every element equals the scalar s, converted to this type, like
/// torch.full_like(x, s). Inputs: x and s. The elements of x are not read.
struct full_like {
  static constexpr char const* name = "full_like";
  static constexpr char const* layouts = "#, - -> -";

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

} // namespace constrain::op
