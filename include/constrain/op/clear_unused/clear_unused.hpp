#pragma once

#include "constrain/program/builder.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Sets the unused elements of a tensor to 0: if the ranks of a tensor group have ranges of a dimension, the indices by
/// which the last rank's range is shorter than the others. The tensor is input 0 and output 0. On the other ranks,
/// nothing changes.
struct clear_unused {
  struct options {
    std::int64_t elements = 0; // elements of one rank's range, with unused elements
    std::int64_t period = 0;   // elements of the divided dimension and of the dimensions after it
    std::int64_t unused = 0;   // of each period, the number of unused elements, which are the last ones
  };
  static constexpr char const* name = "clear_unused";
  static constexpr char const* layouts = "* -> *";
  static constexpr bool guarded = true; // if the update is skipped, the unused elements are 0 before the call, too

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

/// Appends a call to op::clear_unused for `tensor`, a divided parameter, or the gradient or state of one that has its
/// shape. Appends nothing if the parameter has no unused elements.
constexpr void append_clear_unused(builder& out, ref tensor, int line) {
  auto const& values = out.program.values;
  auto const& info = values[tensor.value];
  auto const& parameter = info.belongs_to < 0 ? info : values[info.belongs_to];
  if (parameter.unused == 0) return;
  std::int64_t inner = 1; // elements of the dimensions after the divided one
  for (int i = parameter.divided + 1; i < info.shape.rank; ++i) inner *= info.shape.extent[i];
  out.call<clear_unused>(
      {tensor}, {tensor},
      {info.shape.elements(), info.shape.extent[parameter.divided] * inner, parameter.unused * inner}, line);
}

} // namespace constrain::op
