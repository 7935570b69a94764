#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Every element of y is `value`. x gives only shape and type.
struct constant_like {
  struct options {
    double value = 0; // of every element
  };
  static constexpr char const* name = "constant";
  static constexpr bool reads_partial = true; // true, since x is not read

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

} // namespace constrain::op
