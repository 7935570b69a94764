#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/division.hpp"

#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The gradient of op::slice: dx is dy at the indices of the slice and 0 elsewhere. If dx is an accumulator, the first
/// write in a run of the program overwrites all of dx, and later writes add only at the indices of the slice.
struct pad {
  struct options {
    int dimension = 0;       // index of the sliced dimension; 0: the outermost
    std::int64_t begin = 0;  // index of the slice's first element in this dimension
    std::int64_t extent = 1; // extent of dx in this dimension
  };
  static constexpr char const* name = "pad";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned strided_inputs = 0b1;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto s = in[0].shape;
    s.extent[o.dimension] = o.extent;
    return inferred::one(in[0].type, s);
  }
};

/// The elements of x whose index in one dimension is in [begin, begin + extent). With several `iterations`, the slice
/// moves: in iteration i of the innermost loop around the call, the slice begins at begin + i * extent. Only the pass
/// `loop_over_rows` inserts moving slices, after differentiation: the gradient rule ignores `iterations`.
struct slice {
  struct options {
    int dimension = 0;           // index of the sliced dimension; 0: the outermost
    std::int64_t begin = 0;      // index of the first element in this dimension
    std::int64_t extent = 1;     // extent of the result in this dimension
    std::int64_t iterations = 1; // iterations of the innermost loop, if the slice moves; 1: the slice does not move
  };
  static constexpr char const* name = "slice";
  static constexpr bool any_gradient_type = true;
  static constexpr char const* layouts = "-f -> -f";
  static constexpr unsigned strided_inputs = 0b1;

  /// Refused: a dimension that x does not have. `expected`: the number of dimensions of x. `got`: the dimension.
  template <diagnosis d> struct no_such_dimension {
    static_assert(d.ok(), "ct::slice: the value has `expected` dimensions, but dimension `got` is sliced; choose one "
                          "of the value's dimensions, which are numbered from 0, the outermost");
  };
  /// Refused: indices that x does not have. `expected`: the extent of x in the sliced dimension. `got`: the end of the
  /// slice (of the last iteration), or `begin` if `begin` is negative or beyond the extent.
  template <diagnosis d> struct slice_is_out_of_range {
    static_assert(d.ok(), "ct::slice: the slice begins or ends at `got`, but the dimension extends from 0 to "
                          "`expected`; choose a `begin` of at least 0 and a sum of `begin` and `extent` of at most "
                          "`expected`");
  };
  /// Refused: an extent or a number of iterations below 1. `got`: the smaller of the two.
  template <diagnosis d> struct slice_is_empty {
    static_assert(d.ok(), "ct::slice: the extent (or .iterations of op::slice) is `got`, but must be at least "
                          "`expected`; choose a larger one");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto s = in[0].shape;
    if (o.dimension < 0 || o.dimension >= s.rank) return inferred::failure<no_such_dimension>(s.rank, o.dimension);
    auto const full_extent = s.extent[o.dimension];
    auto const least = o.extent < o.iterations ? o.extent : o.iterations;
    if (least < 1) return inferred::failure<slice_is_empty>(1, least);
    if (o.begin < 0) return inferred::failure<slice_is_out_of_range>(full_extent, o.begin);
    if (o.begin > full_extent || o.extent > (full_extent - o.begin) / o.iterations) {
      constexpr auto maximum = std::numeric_limits<std::int64_t>::max();
      auto const end = o.extent > (maximum - o.begin) / o.iterations ? maximum : o.begin + o.extent * o.iterations;
      return inferred::failure<slice_is_out_of_range>(full_extent, o.begin > full_extent ? o.begin : end);
    }
    s.extent[o.dimension] = o.extent;
    return inferred::one(in[0].type, s);
  }
  /// For a slice of the innermost dimension: changes the options to one rank's options, and `d.parts` to the parts of
  /// the result; returns false if the slice moves or does not consist of full parts. Other slices need no change.
  static constexpr bool divide(options& o, division& d) {
    if (o.dimension != d.dimensions - 1) return true;
    std::int64_t begin = 0, covered = 0;
    auto const extents = d.parts.extents;
    d.parts.extents.count = 0;
    for (auto extent : extents) {
      if (o.begin <= begin && begin + extent <= o.begin + o.extent)
        d.parts.extents.push_back(extent), covered += extent;
      begin += extent;
    }
    bool const is_possible = covered == o.extent && o.iterations == 1;
    o.begin /= d.ranks, o.extent /= d.ranks;
    return is_possible;
  }
  static constexpr void gradient(backward& b) {
    auto const o = b.options<slice>();
    b.emit<pad>({b.gradient()}, {0},
                {.dimension = o.dimension, .begin = o.begin, .extent = b.input(0).shape().extent[o.dimension]});
  }
};

} // namespace op

namespace detail {

/// Refuses a value of type i32: token ids, positions or integer labels. The trainer checks the integers of an input
/// against the tables that they index, but it does not follow integers through other ops.
constexpr void refuse_ids(value x, int line) {
  auto& owner = x.owner();
  if (x.type() == dtype::i32)
    owner.program.fail(diagnosis_with<op::integers_instead_of_floats>(line, owner.called_from));
}

} // namespace detail

/// The elements of x whose index in `dimension` (0: the outermost) is in [begin, begin + extent). Where possible, the
/// result is a view of x, not a copy (pass/slice_views.hpp). A model must not slice the dimension that indexes
/// sequences, because `generate` runs the model on one sequence. Refused: a dimension that x does not have, an extent
/// below 1, indices that x does not have, and i32 values, such as token ids.
constexpr value slice(value x, int dimension, std::int64_t begin, std::int64_t extent, int line = __builtin_LINE()) {
  detail::refuse_ids(x, line);
  return emit<op::slice>({x}, {.dimension = dimension, .begin = begin, .extent = extent}, line);
}

} // namespace constrain
