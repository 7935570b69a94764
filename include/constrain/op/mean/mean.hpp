#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A dimension of an activation [sequences, tokens, features], for `mean`.
enum class axis { tokens = 1, features = 2 };

namespace op {

/// The gradient of op::mean: dx is dy, divided by the extent of the dimension and repeated along it. Attribute 0: the
/// dimension; 1: its extent.
struct mean_gradient {
  static constexpr char const* name = "mean_gradient";

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    auto const dimension = static_cast<int>(a.integer[0]);
    shape s;
    for (int i = 0; i <= in[0].shape.rank; ++i)
      s.extent[s.rank++] = i == dimension ? a.integer[1] : in[0].shape.extent[i < dimension ? i : i - 1];
    return inferred::one(in[0].type, s);
  }
};

/// The mean over one dimension; the result does not have this dimension. Attribute 0: the dimension.
struct mean {
  static constexpr char const* name = "mean";

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    if (auto const wrong = needs_reals(in); wrong.reason != why::nothing) return wrong;
    if (a.integer[0] < 0 || a.integer[0] >= in[0].shape.rank)
      return inferred::failure(why::axis_is_not_there, a.integer[0] + 1, in[0].shape.rank);
    return inferred::one(in[0].type, in[0].shape.without(static_cast<int>(a.integer[0])));
  }
  static constexpr void gradient(backward& b) {
    auto const dimension = b.options().integer[0];
    b.emit<mean_gradient>({b.gradient()}, {0}, {{dimension, b.input(0).shape().extent[dimension]}, {}});
  }
};

} // namespace op

/// The mean over tokens or features: x [sequences, tokens, width] -> [sequences, width] for axis::tokens, [sequences,
/// tokens] for axis::features. Refused: token ids, and x without this dimension.
constexpr value mean(value x, axis over, int line = __builtin_LINE()) {
  return emit<op::mean>({x}, {{static_cast<int>(over)}, {}}, line);
}

} // namespace constrain
