#pragma once

#include "constrain/program/builder.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Sets the unused elements of a tensor to 0. If a dimension is divided over the ranks of a tensor group, the ranges of
/// all ranks have the same length, but the last rank may use only the first indices of its range: the elements at the
/// other indices are unused. On the other ranks, nothing changes. The tensor is input 0 and output 0.
struct clear_unused {
  struct options {
    std::int64_t elements = 0; // elements of one rank's range of one tensor, including unused ones
    std::int64_t period = 0;   // product of the range's extents from the divided dimension on
    std::int64_t unused = 0;   // each period of the range ends with this many unused elements
  };
  static constexpr char const* name = "clear_unused";
  static constexpr char const* layouts = "* -> *";
  static constexpr bool guarded = true; // it always writes, but after a skipped update only 0 over 0

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

/// Appends a call to op::clear_unused for `tensor`: a parameter, or a gradient or state with the shape of its
/// parameter. Appends nothing if the parameter has no unused elements.
constexpr void append_clear_unused(builder& out, ref tensor, int line) {
  auto const& values = out.program.values;
  auto const& info = values[tensor.value];
  auto const& parameter = info.belongs_to < 0 ? info : values[info.belongs_to];
  if (parameter.unused == 0) return;
  std::int64_t inner = 1; // product of the extents after the divided dimension
  for (int i = parameter.divided + 1; i < info.shape.rank; ++i) inner *= info.shape.extent[i];
  out.call<clear_unused>(
      {tensor}, {tensor},
      {info.shape.elements(), info.shape.extent[parameter.divided] * inner, parameter.unused * inner}, line);
}

} // namespace constrain::op
