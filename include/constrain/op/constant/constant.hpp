#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y of the type and shape of x, with every element equal to real attribute 0. The elements of x are not read.
struct constant_like {
  static constexpr char const* name = "constant";
  static constexpr bool reads_partial = true; // allowed, since no element of x is read

  static constexpr inferred infer(operand_types const& in, attributes const&) {
    return inferred::one(in[0].type, in[0].shape);
  }
};

} // namespace constrain::op
