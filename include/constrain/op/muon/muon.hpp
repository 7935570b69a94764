#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Muon's update of one matrix [rows, columns], as `optimizer::muon` defines it. Inputs: the gradient, norm_and_scale
/// [norm, scale] (op::clip_coefficient or op::tensor_scale), `step_hyperparameters` as bytes, the matrix and its
/// momentum. Outputs: the new matrix, the new momentum, and three scratch matrices: one [rows, columns] and two
/// [side, side], where side is the smaller of rows and columns. The inputs keep their values. The op writes its outputs
/// even if scale is 0; op::assign, which stores them in the parameter and the state, ignores them in this case.
template <class optimizer> struct muon {
  struct options {
    bool decays = false; // whether weight decay applies to the matrix
  };
  static constexpr char const* name = "muon";
  static constexpr unsigned workspace = 0b11100;

  static constexpr inferred infer(operand_types const& in) {
    auto const matrix = in[3].shape;
    auto const side = smaller_extent(matrix);
    auto result = inferred::one(in[3].type, matrix).and_also(in[4].type, matrix).and_also(in[3].type, matrix);
    return result.and_also(in[3].type, shape(side, side)).and_also(in[3].type, shape(side, side));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto result = cost_by_operands(in, out);
    auto const side = static_cast<double>(smaller_extent(in[3].shape));
    auto const elements = static_cast<double>(in[3].shape.elements());
    // Each Newton-Schulz step runs three GEMMs: the Gram matrix, its square, and the new matrix.
    result.flops = optimizer::newton_schulz_steps * 2.0 * side * (2 * elements + side * side);
    return result;
  }

private:
  static constexpr std::int64_t smaller_extent(shape matrix) {
    return matrix.extent[0] < matrix.extent[1] ? matrix.extent[0] : matrix.extent[1];
  }
};

} // namespace constrain::op
