#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A dimension of an activation [sequences, tokens, features], for `mean`. The enumerator's value is the index of the
/// dimension.
enum class axis { tokens = 1, features = 2 };

namespace op {

/// The gradient of op::mean: dx is dy, divided by the extent of the dimension and repeated along it.
struct mean_gradient {
  struct options {
    int dimension = 0;       // index, in x, of the dimension that the mean was taken over; 0: the outermost
    std::int64_t extent = 1; // extent of x in this dimension
  };
  static constexpr char const* name = "mean_gradient";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    shape s;
    for (int i = 0; i <= in[0].shape.rank; ++i)
      s.extent[s.rank++] = i == o.dimension ? o.extent : in[0].shape.extent[i < o.dimension ? i : i - 1];
    return inferred::one(in[0].type, s);
  }
};

/// The mean over one dimension; the result does not have this dimension.
struct mean {
  struct options {
    int dimension = 0; // index of the dimension to take the mean over; 0: the outermost
  };
  static constexpr char const* name = "mean";

  /// Refused: a dimension that the value does not have. `expected`: its number of dimensions. `got`: the dimension.
  template <diagnosis d> struct no_such_dimension {
    static_assert(d.ok(), "op::mean: the value has `expected` dimensions, but the mean is over dimension `got`; choose "
                          "one of the value's dimensions, which are numbered from 0, the outermost");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    if (o.dimension < 0 || o.dimension >= in[0].shape.rank)
      return inferred::failure<no_such_dimension>(in[0].shape.rank, o.dimension);
    return inferred::one(in[0].type, in[0].shape.without(o.dimension));
  }
  static constexpr void gradient(backward& b) {
    auto const dimension = b.options<mean>().dimension;
    b.emit<mean_gradient>({b.gradient()}, {0},
                          {.dimension = dimension, .extent = b.input(0).shape().extent[dimension]});
  }
};

} // namespace op

/// The mean of x over tokens or features: x [sequences, tokens, features] -> [sequences, features] for axis::tokens, or
/// [sequences, tokens] for axis::features. Refused: token ids, and an x that does not have three dimensions; for such
/// an x, use `emit<op::mean>`.
constexpr value mean(value x, axis over, int line = __builtin_LINE()) {
  auto& owner = x.owner();
  if (is_real(x.type()) && x.shape().rank != 3)
    owner.program.fail(diagnosis_with<op::wrong_number_of_dimensions>(line, owner.called_from, 3, x.shape().rank));
  return emit<op::mean>({x}, {.dimension = static_cast<int>(over)}, line);
}

} // namespace constrain
