#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

// Refusals that several ops share.

/// The epsilon of a normalization is not in [0, 1e38].
template <diagnosis d> struct epsilon_is_out_of_range {
  static_assert(d.ok(), "ct::layer_norm, ct::rms_norm: .epsilon is not in [0, 1e38]; give a number in this range, "
                        "for example 1e-5");
};
/// Whether `epsilon` is in [0, 1e38].
constexpr bool is_epsilon(double epsilon) { return epsilon >= 0 && epsilon <= constrain::detail::largest_fp32_option; }

/// The weight of an op has `got` dimensions, but must be a matrix.
template <diagnosis d> struct weight_is_not_a_matrix {
  static_assert(d.ok(), "a weight has `got` dimensions, but must be a matrix; give it the shape [out, in], or "
                        "[vocabulary, width] for an embedding");
};

/// An activation has `got` dimensions, but the op needs `expected`.
template <diagnosis d> struct wrong_number_of_dimensions {
  static_assert(d.ok(), "a value has `got` dimensions, but needs `expected`; pass [sequences, tokens, features]");
};

/// A value would have `got` dimensions, more than `expected`, the maximum.
template <diagnosis d> struct too_many_dimensions {
  static_assert(d.ok(), "a value would have `got` dimensions, but may have at most `expected`; ct::embedding and the "
                        "`.features` of a ct::port_spec add one, so pass ids with fewer dimensions, or set `.features` "
                        "to 0");
};

/// A value holds integers, but must hold floating-point numbers. `got`: the index of the operand if an op refuses it,
/// otherwise 0.
template <diagnosis d> struct integers_instead_of_floats {
  static_assert(d.ok(), "a value that must be floating-point holds integers, such as token ids; pass ids to "
                        "ct::embedding as its second argument, or declare an input or label of real numbers with "
                        ".type = ct::port_type::real");
};

/// Two operands that must have the same shape differ in their number of dimensions, `expected` and `got`.
template <diagnosis d> struct ranks_differ {
  static_assert(d.ok(), "two shapes that must be equal have `expected` and `got` dimensions; give both the same "
                        "number of dimensions, for example apply ct::mean to both or to neither");
};

/// Two extents, `expected` and `got`, differ, but must be equal.
template <diagnosis d> struct widths_differ {
  static_assert(d.ok(), "two extents that must be equal are `expected` and `got`; make them equal: a ct::linear, for "
                        "example, changes the width of a value");
};

} // namespace constrain::op

namespace constrain::inline CONSTRAIN_VARIANT {

/// For ops on floating-point operands: refuses integers (token ids) among the first `count` operands, which must exist.
/// If none of these operands holds integers, the result's reason is `nothing`.
constexpr inferred needs_reals(operand_types const& in, int count = 1) {
  for (int i = 0; i < count; ++i)
    if (in[i].type == dtype::i32) return inferred::failure<op::integers_instead_of_floats>(0, i);
  return inferred();
}

/// For ops whose result has the dimensions of `s` and one more: refuses a result with too many dimensions. Otherwise,
/// the result's reason is `nothing`.
constexpr inferred allows_one_more_dimension(shape const& s) {
  if (s.rank < shape::maximum_rank) return inferred();
  return inferred::failure<op::too_many_dimensions>(shape::maximum_rank, s.rank + 1);
}

/// For ops whose two operands must have the same shape: refuses different shapes, and reports both numbers of
/// dimensions, or the innermost extents that differ. If the shapes are equal, the result's reason is `nothing`.
constexpr inferred needs_one_shape(operand_type const& a, operand_type const& b) {
  if (a.shape.rank != b.shape.rank) return inferred::failure<op::ranks_differ>(a.shape.rank, b.shape.rank);
  for (int i = a.shape.rank - 1; i >= 0; --i)
    if (a.shape.extent[i] != b.shape.extent[i])
      return inferred::failure<op::widths_differ>(a.shape.extent[i], b.shape.extent[i]);
  return inferred();
}

} // namespace constrain
