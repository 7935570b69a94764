#pragma once

#include "constrain/op/slice/slice.hpp"
#include "constrain/program/extents.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The elements of x, in row-major order, in the shape `to`.
struct reshape {
  struct options {
    shape to; // shape of the result
  };
  static constexpr char const* name = "reshape";
  static constexpr bool any_gradient_type = true;

  /// Refused: a shape with a different number of elements. `expected`: the number of elements of x. `got`: the number
  /// of elements of the shape.
  template <diagnosis d> struct elements_differ {
    static_assert(d.ok(), "ct::reshape: the value has `expected` elements, but the shape has `got`; give a shape with "
                          "as many elements and, because generate runs the model on one sequence, take the number of "
                          "sequences from the shape of the model's input");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const elements = in[0].shape.elements();
    // The program refuses a result with invalid extents.
    if (has_valid_extents(o.to) && o.to.elements() != elements)
      return inferred::failure<elements_differ>(elements, o.to.elements());
    return inferred::one(in[0].type, o.to);
  }
  static constexpr void gradient(backward& b) { b.emit<reshape>({b.gradient()}, {0}, {.to = b.input(0).shape()}); }
};

} // namespace op

/// The elements of x, in row-major order, in the shape `to`. The result shares the memory of x if possible. A model
/// must take the number of sequences from the shape of its input or of x, because `generate` runs the model on one
/// sequence, and `evaluate` on `micro_batch::evaluation_sequences`. Refused: a shape with an extent below 1, too many
/// elements or a different number of elements, and i32 values, such as token ids.
constexpr value reshape(value x, shape to, int line = __builtin_LINE()) {
  detail::refuse_ids(x, line);
  return emit<op::reshape>({x}, {.to = to}, line);
}

} // namespace constrain
