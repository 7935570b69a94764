#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y = x, converted to the type `to`; a copy if x already has this type. The pass `mixed_precision` inserts this op
/// before ops that promote types, before GEMMs whose operands have different types, and to make the compute copies of
/// parameters. `casts_of_kept_copies` inserts it to bring kept copies up to date. The pass `differentiate` inserts it
/// if a gradient needs another type. The pass `update` inserts it to make fp32 copies of parameters that are stored in
/// 16 bits and rounded stochastically. An update rule that works on parts of a parameter inserts it to copy a part's
/// new values, if they have a different type, if their memory may be overwritten, or if they are the part's parameter
/// or gradient itself (update_rule::assign). The gradient rule of `multiply` inserts it if the gradient and a factor
/// have different types. The gradient rule of `cast` applies to casts in a model, and to the casts that are inserted
/// before ops that promote types and before GEMMs. It does not apply to compute copies: their gradients accumulate
/// directly in the gradient buffers of the parameters.
struct cast {
  struct options {
    dtype to = dtype::f32; // type of y's elements
  };
  static constexpr char const* name = "cast";
  static constexpr bool any_gradient_type = true;
  static constexpr char const* layouts = "* -> *";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(o.to, in[0].shape);
  }
  static constexpr void gradient(backward& b) { b.emit<cast>({b.gradient()}, {0}, {.to = b.input(0).type()}); }
};

} // namespace constrain::op
