#pragma once

#include "constrain/op/embedding_part/embedding_part.hpp"
#include "constrain/op/refusals.hpp"
#include "constrain/op/tensor_sum/tensor_sum.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// dy [..., width], tokens [...] (i32) -> dtable [vocabulary, width], in the accumulator type. For each row t of the
/// table, dtable[t] (+)= the sum of dy[p] over all positions p with tokens[p] == t, in the order of the positions; 0 if
/// there are none. (+)=: the first write in a run of the program overwrites the output; later writes add to it.
struct embedding_gradient {
  struct options {
    std::int64_t vocabulary = 1; // rows of the table
  };
  static constexpr char const* name = "embedding_gradient";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(accumulator_of(in[0].type), shape(o.vocabulary, in[0].shape.features()));
  }
};

/// y[..., :] = table[tokens[...], :]: table [vocabulary, width], tokens [...] (i32, in [0, vocabulary)) -> [...,
/// width].
struct embedding {
  static constexpr char const* name = "embedding";

  /// Refused: tokens that are not i32.
  template <diagnosis d> struct tokens_are_not_integers {
    static_assert(d.ok(), "the input of ct::embedding must be integers (i32); pass token ids or, for "
                          "ct::position_embedding, positions");
  };

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    if (in[0].shape.rank != 2) return inferred::failure<weight_is_not_a_matrix>(2, in[0].shape.rank);
    if (in[1].type != dtype::i32) return inferred::failure<tokens_are_not_integers>(0, 0);
    if (auto const refusal = allows_one_more_dimension(in[1].shape); refusal.reason != why::nothing) return refusal;
    auto s = in[1].shape;
    s.extent[s.rank++] = in[0].shape.features();
    return inferred::one(in[0].type, s);
  }
  static constexpr void gradient(backward& b) {
    b.emit<embedding_gradient>({b.gradient(), b.input(1)}, {0}, {.vocabulary = b.input(0).shape().extent[0]});
  }

  /// Appends the form of node `n` for a table whose rows are divided over the ranks of a tensor group: the results of
  /// all ranks are summed.
  static constexpr void divided_form(builder& out, node const& n) {
    ref const part = out.call<embedding_part>({n.inputs[0], n.inputs[1]}, {}, {}, n.line).outputs[0];
    out.call<tensor_sum>({part}, {n.outputs[0]}, {}, n.line);
  }
};

} // namespace op

/// Options of `embedding`.
struct embedding_options {
  int vocabulary = 0;   // rows of the table, at least 1; token ids are below this number
  int width = 0;        // features of a token (columns of the table), at least 1
  double stddev = 0.02; // standard deviation of the initial table (normal distribution with mean 0), in [0, 1e30]
};

/// Looks tokens up in an existing table: table [vocabulary, width], tokens [...] (i32, in [0, vocabulary)) -> [...,
/// width]. For a head with tied weights, pass the same table to `linear`. Refused: a table that holds token ids or does
/// not have two dimensions, and tokens that are not i32 or have four dimensions.
constexpr value embedding(value table, value tokens, int line = __builtin_LINE()) {
  // Trainers and inference objects check the ids of an input against the smallest table in which they are looked up.
  if (table.shape().rank == 2) tokens.owner().program.limit(tokens.where(), table.shape().extent[0]);
  return emit<op::embedding>({table, tokens}, {}, line);
}

/// Looks tokens up in a new table: tokens [...] (i32, in [0, vocabulary)) -> [..., width]. Parameter "name.weight"
/// [vocabulary, width]. Refused: tokens that are not i32 or have four dimensions, a `.vocabulary` or `.width` below 1,
/// and everything else that `parameter` refuses, such as a `.stddev` outside [0, 1e30].
constexpr value embedding(std::string_view name, value tokens, embedding_options options, int line = __builtin_LINE()) {
  scope const inside(tokens.owner(), name, line);
  auto const table = parameter(tokens, "weight", shape(options.vocabulary, options.width), role::embedding,
                               {.stddev = options.stddev}, line);
  return embedding(table, tokens, line);
}

} // namespace constrain
