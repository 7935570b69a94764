#pragma once

#include "constrain/op/collective/collective.hpp"
#include "constrain/program/backward.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The gradient of op::tensor_gather: dy [..., features] (the same on every rank) -> [..., columns] (this rank's range
/// of the features), with columns = features / ranks, rounded up. Columns beyond the last feature are 0.
struct tensor_gather_gradient {
  struct options {
    std::int64_t ranks = 1; // number of ranks in the group
  };
  static constexpr char const* name = "tensor_gather_gradient";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, in[0].shape.with_features((in[0].shape.features() + o.ranks - 1) / o.ranks));
  }
};

/// Gathers all features of x, which are divided over the ranks of a tensor group (`step_parameters::tensor`): x
/// [..., columns] -> [..., features], the same on every rank. Every rank has the same number of columns: column i of
/// rank r is feature r * columns + i. Columns beyond the last feature are unused. Output 1 is the exchange buffer.
struct tensor_gather {
  struct options {
    std::int64_t features = 1; // number of features of all ranks together
    std::int64_t ranks = 1;    // number of ranks in the group
  };
  static constexpr char const* name = "tensor_gather";
  static constexpr unsigned workspace = 0b10;
  static constexpr bool exchanges = true;
  static constexpr bool same_data = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const row = in[0].shape.features() * o.ranks;
    auto const rows = std::clamp<std::int64_t>(exchange_elements / row, 1, in[0].shape.rows());
    return inferred::one(in[0].type, in[0].shape.with_features(o.features)).and_also(in[0].type, shape(rows * row));
  }
  static constexpr void gradient(backward& b) {
    b.emit<tensor_gather_gradient>({b.gradient()}, {0}, {.ranks = b.options<tensor_gather>().ranks});
  }
};

} // namespace constrain::op
