#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The gradient of op::gather_rows: row rows[i] of dx is row i of dy; the other rows of dx are 0. If dx is an
/// accumulator, the first write in a run of the program overwrites all of dx, and later writes add only to the rows in
/// `rows`. dy [n] or [n, width], rows [n] (i32, in [0, m), distinct) -> dx [m] or [m, width], in the shape
/// `options::to`, which may split m into several dimensions. The pass `loop_over_rows` also inserts this op.
struct scatter_rows {
  struct options {
    shape to; // shape of dx
  };
  static constexpr char const* name = "scatter_rows";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const& in, options const& o) { return inferred::one(in[0].type, o.to); }
  /// Counts only the rows in `rows`, although the first write also sets the rest of dx to 0.
  static constexpr cost cost_of(operand_types const& in, operand_types const&) {
    auto const elements = static_cast<double>(in[0].shape.elements());
    auto const rows = static_cast<double>(in[1].shape.elements() * size_of(dtype::i32));
    auto const dy = elements * static_cast<double>(size_of(in[0].type));
    return {.flops = elements, .bytes_read = 2 * dy + rows, .bytes_written = dy};
  }
};

/// Selects rows of x: y[i] = x[rows[i]]. x [m] or [m, width], rows [n] (i32, in [0, m), distinct) -> [n] or [n, width].
/// x may hold integers. The pass `loop_over_rows` inserts this op.
struct gather_rows {
  static constexpr char const* name = "gather_rows";

  static constexpr inferred infer(operand_types const& in) {
    auto s = in[0].shape;
    s.extent[0] = in[1].shape.extent[0];
    return inferred::one(in[0].type, s);
  }
  /// Counts only the rows of x that are read.
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto const rows = static_cast<double>(in[1].shape.elements() * size_of(dtype::i32));
    auto const y = static_cast<double>(out[0].shape.elements() * size_of(out[0].type));
    return {.bytes_read = y + rows, .bytes_written = y};
  }
  static constexpr void gradient(backward& b) {
    b.emit<scatter_rows>({b.gradient(), b.input(1)}, {0}, {.to = b.input(0).shape()});
  }
};

} // namespace constrain::op
