#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// x rounded to TF32, element by element: to the nearest value with 10 mantissa bits, ties to even; the exponent keeps
/// its 8 bits. x and the result are fp32. Overflow gives infinity; infinity and NaN keep their bits. The pass
/// `round_operands` inserts this op to emulate precision::tf32 on the CPU.
struct round_to_tf32 {
  static constexpr char const* name = "round_to_tf32";
  static constexpr char const* layouts = "... -> ..."; // not "* -> *": a row loop cannot gather rounded shards

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

} // namespace constrain::op
