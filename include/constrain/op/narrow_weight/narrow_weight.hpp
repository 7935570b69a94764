#pragma once

#include "constrain/program/op_info.hpp"

// The ops around the update of a weight that is stored in 16 bits without a master copy.

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Rounds each element of an updated weight (fp32) to one of the two neighbouring numbers in bf16: up with the
/// probability (x - below) / (above - below), so that the expected value is x and small updates are not lost (Zamirai
/// et al. 2021, "Revisiting BFloat16 Training"). The random bits depend only on seed, step, parameter, iteration and
/// the index of the element in the full tensor. Inputs: the weight and clip [norm, scale] (op::clip_coefficient). If
/// scale is 0, the output keeps its value.
struct round_stochastically {
  struct options {
    int parameter = 0;         // index of the parameter among the trained ones: part of the random key
    std::int64_t elements = 0; // of the full tensor, or of the part of it that a rank of a tensor group has
    bool divided = false;      // whether each rank of a tensor group has another part
  };
  static constexpr char const* name = "round_stochastically";
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(dtype::bf16, in[0].shape); }
};

/// A weight with its compensation: w + c, element by element, in fp32. w is what the weight was rounded to, and c what
/// the rounding has left out (Kahan 1965, "Further Remarks on Reducing Truncation Errors").
struct compensated_sum {
  static constexpr char const* name = "compensated_sum";
  static constexpr char const* layouts = "*, * -> *";

  static constexpr inferred infer(operand_types const& in) { return inferred::one(dtype::f32, in[0].shape); }
};

/// What rounding x to nearest in bf16 leaves out: x - bf16(x), element by element, in fp32.
struct rounding_error {
  static constexpr char const* name = "rounding_error";
  static constexpr char const* layouts = "* -> *";

  static constexpr inferred infer(operand_types const& in) { return inferred::one(dtype::f32, in[0].shape); }
};

} // namespace constrain::op
