#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

struct embedding;

/// The gradient of op::embedding_part: dy [..., width], tokens [...] (i32) -> dtable [rows, width], in the accumulator
/// type. For each token with first <= token < first + rows, dtable[token - first] (+)= the sum of dy over all positions
/// with that token, in the order of the positions; other tokens are skipped. `first` is the index, in the full table,
/// of the rank's first row. (+)=: the first write in a run of the program overwrites the output; later writes add to
/// it.
struct embedding_part_gradient {
  struct options {
    std::int64_t rows = 1; // rows of the table on one rank
  };
  static constexpr char const* name = "embedding_part_gradient";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(accumulator_of(in[0].type), shape(o.rows, in[0].shape.features()));
  }
};

/// One rank's part of op::embedding for a table whose rows are divided over the ranks of a tensor group (Shoeybi et al.
/// 2019, Megatron-LM, section 3): table [rows, width], tokens [...] (i32) -> [..., width]. The result is the token's
/// row of the table if this rank has that row, otherwise 0; the sum of the ranks' results is the embedding. Every rank
/// stores the same number of rows; rows beyond the vocabulary are unused.
struct embedding_part {
  using written_as = embedding;
  static constexpr char const* name = "embedding_part";

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = allows_one_more_dimension(in[1].shape); refusal.reason != why::nothing) return refusal;
    auto s = in[1].shape;
    s.extent[s.rank++] = in[0].shape.features();
    return inferred::one(in[0].type, s);
  }
  static constexpr void gradient(backward& b) {
    b.emit<embedding_part_gradient>({b.gradient(), b.input(1)}, {0}, {.rows = b.input(0).shape().extent[0]});
  }
};

} // namespace constrain::op
