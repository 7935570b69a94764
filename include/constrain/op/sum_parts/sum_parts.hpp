#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of an op with outputs that are sums over rows (`op_info::row_sums`). An output in parts must not be an
/// accumulator: CUDA kernels always overwrite it.
struct row_sum_options {
  std::int64_t parts = 0; // number of parts into which the rows are divided, at most the number of rows; each part has
                          // its own sums; 0: sums over all rows

  /// The shape of an output that sums rows of `features` elements: [features], or [parts, features].
  constexpr shape sums_of(std::int64_t features) const { return parts == 0 ? shape(features) : shape(parts, features); }
};

namespace op {

/// y (+)= the sum of x over its first dimension, [parts, features] -> [features]. On each device, the order of the
/// additions depends only on the shape. (+)=: the first write in a run of the program overwrites y; later writes add to
/// it. The pass `sum_parts_together` inserts this op.
struct sum_parts {
  static constexpr char const* name = "sum_parts";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, shape(in[0].shape.features()));
  }
};

} // namespace op

} // namespace constrain
