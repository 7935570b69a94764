#pragma once

#include "constrain/program/op_info.hpp"

// Ops that run before and after the update of a weight that is stored in 16 bits without fp32 master weights.

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Rounds each element x of an updated weight (fp32) to one of its two bf16 neighbors, below and above. The probability
/// of rounding up is (x - below) / (above - below), so the expected value is x (unless the magnitude of x exceeds the
/// largest finite bf16 value), and small updates are not lost on average (Zamirai et al. 2021, "Revisiting BFloat16
/// Training"). An x that is a bf16 value keeps its value. The random bits depend only on the seed, the optimizer step,
/// the parameter, the iteration of the enclosing loops and the index of the element in the full tensor or, if a tensor
/// group divides the parameter, in the concatenation of the ranks' ranges. Inputs: the weight and norm_and_scale [2]
/// (op::clip_coefficient or op::tensor_scale). If scale is 0, the output keeps its value.
struct round_stochastically {
  struct options {
    int parameter = 0;         // index among the trained parameters: part of the random key
    std::int64_t elements = 0; // elements of the full tensor or, if `divided`, of one rank's range of it
    bool divided = false;      // whether a tensor group divides the parameter
  };
  static constexpr char const* name = "round_stochastically";
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(dtype::bf16, in[0].shape); }
};

/// The sum of a rounded weight w and its compensation c, the rounding error: w + c, element by element, in fp32 (Kahan
/// 1965, "Further Remarks on Reducing Truncation Errors"). w and c have the same shape, and each is stored in its own
/// type.
struct compensated_sum {
  static constexpr char const* name = "compensated_sum";
  static constexpr char const* layouts = "*, * -> *";

  static constexpr inferred infer(operand_types const& in) { return inferred::one(dtype::f32, in[0].shape); }
};

/// The error of rounding x (fp32) to the nearest bf16 value: x - bf16(x), element by element, in fp32. 0 where bf16(x)
/// is not finite: with an infinite error, the next sum of weight and compensation would be NaN.
struct rounding_error {
  static constexpr char const* name = "rounding_error";
  static constexpr char const* layouts = "* -> *";

  static constexpr inferred infer(operand_types const& in) { return inferred::one(dtype::f32, in[0].shape); }
};

} // namespace constrain::op
