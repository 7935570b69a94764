#pragma once

#include "constrain/base/error.hpp"
#include "constrain/op/slice/slice.hpp"

#include <initializer_list>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// Joins the inputs along one dimension, in order, like torch.cat.
struct concatenate {
  struct options {
    int dimension = 0; // dimension along which the inputs are joined; 0: the outermost
  };
  static constexpr char const* name = "concatenate";
  static constexpr bool any_gradient_type = true;
  static constexpr bool promotes_types = true; // in mixed precision, the inputs can have different types
  static constexpr unsigned strided_inputs = (1u << node::maximum_inputs) - 1;
  static constexpr unsigned strided_outputs = 0b1;

  /// Refused: a dimension that the first value does not have. `expected`: the number of dimensions of this value.
  /// `got`: the dimension.
  template <diagnosis d> struct no_such_dimension {
    static_assert(d.ok(), "ct::concatenate: the first value has `expected` dimensions, but the values are joined "
                          "along dimension `got`; choose a dimension that all values have, counted from 0, the "
                          "outermost");
  };
  /// Refused: values whose types differ, or whose shapes differ outside the joined dimension. `got`: the index of the
  /// value that differs from the first.
  template <diagnosis d> struct values_do_not_fit {
    static_assert(d.ok(), "ct::concatenate: value number `got`, counted from 0, differs from the first value in its "
                          "type, its number of dimensions, or an extent outside the joined dimension; make these "
                          "equal");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto s = in[0].shape;
    if (o.dimension < 0 || o.dimension >= s.rank) return inferred::failure<no_such_dimension>(s.rank, o.dimension);
    for (int k = 1; k < in.size(); ++k) {
      auto candidate = in[k].shape;
      if (candidate.rank == s.rank) candidate.extent[o.dimension] = s.extent[o.dimension];
      auto expected = s;
      if (candidate != expected || in[k].type != in[0].type) return inferred::failure<values_do_not_fit>(0, k);
      s.extent[o.dimension] += in[k].shape.extent[o.dimension];
    }
    return inferred::one(in[0].type, s);
  }
  static constexpr void gradient(backward& b) {
    auto const dimension = b.options<concatenate>().dimension;
    std::int64_t begin = 0;
    for (int k = 0; k < b.inputs(); ++k) {
      auto const extent = b.input(k).shape().extent[dimension];
      if (b.needs(k)) b.add(k, constrain::slice(b.gradient(), dimension, begin, extent, b.line()));
      begin += extent;
    }
  }
};

} // namespace op

/// Joins one to eight values along `dimension` (0: the outermost), in order, like torch.cat. If possible, the op that
/// computes a value writes the value directly into the result, without a copy. If the values have different types in
/// mixed precision, they are cast to the widest of these types. Throws `error` if there is no value. Refused: more than
/// eight values; values whose types differ, or whose shapes differ outside `dimension`; a dimension that the values do
/// not have; and values that hold integers, such as token ids.
constexpr value concatenate(std::initializer_list<value> values, int dimension, int line = __builtin_LINE()) {
  // Without a value, there is no program to refuse.
  if (values.size() == 0) throw error("ct::concatenate: there are no values; pass at least one");
  for (auto const& x : values) detail::refuse_ids(x, line);
  return emit<op::concatenate>(values, {.dimension = dimension}, line);
}

} // namespace constrain
