#pragma once

#include "constrain/op/add/add.hpp"
#include "constrain/op/embedding/embedding.hpp"
#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// dtable[t, :] (+)= the sum over sequences of dy[:, t, :]: dy [sequences, tokens, width] -> [rows, width], with at
/// least as many rows as tokens. For positions that dy does not have, the sum is 0. (+)=: the first write in a run of
/// the program overwrites the output; later writes add to it.
struct position_embedding_gradient {
  struct options {
    std::int64_t rows = 1; // rows of the table
  };
  static constexpr char const* name = "position_embedding_gradient";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(accumulator_of(in[0].type), shape(o.rows, in[0].shape.features()));
  }
};

/// y[b, t, :] = x[b, t, :] + table[t, :]: x [sequences, tokens, width], table [context, width] -> the shape of x.
struct position_embedding {
  static constexpr char const* name = "position_embedding";
  static constexpr bool promotes_types = true; // in mixed precision, x and the table can have different types
  static constexpr unsigned in_place = 0b1;

  /// Refused: an x with more tokens than the table has rows. `expected`: the number of rows. `got`: the number of
  /// tokens.
  template <diagnosis d> struct sequence_longer_than_context {
    static_assert(d.ok(), "ct::position_embedding: a sequence of `got` tokens is longer than the context of `expected` "
                          "tokens; lower micro_batch::tokens or raise the model's context");
  };

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    if (in[0].shape.rank != 3) return inferred::failure<wrong_number_of_dimensions>(3, in[0].shape.rank);
    if (in[1].shape.rank != 2) return inferred::failure<weight_is_not_a_matrix>(2, in[1].shape.rank);
    if (in[0].shape.extent[1] > in[1].shape.extent[0])
      return inferred::failure<sequence_longer_than_context>(in[1].shape.extent[0], in[0].shape.extent[1]);
    if (in[0].shape.features() != in[1].shape.features())
      return inferred::failure<widths_differ>(in[1].shape.features(), in[0].shape.features());
    return inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(backward& b) {
    b.add(0, b.gradient());
    if (b.needs(1)) b.emit<position_embedding_gradient>({b.gradient()}, {1}, {.rows = b.input(1).shape().extent[0]});
  }
};

} // namespace op

/// Options of `position_embedding`.
struct position_embedding_options {
  int context = 0;      // rows of the table, at least 1: one row per position
  double stddev = 0.02; // standard deviation of the initial table (normal distribution with mean 0), in [0, 1e30]
};

/// Adds a learned vector per position, as GPT-2 does: x [sequences, tokens, width] -> the same shape. The position of a
/// token is its index in the sequence. Parameter "name.weight" [context, width]. Refused: token ids, an x that does not
/// have three dimensions, more tokens than `context`, a `context` below 1, and everything else that `parameter`
/// refuses.
constexpr value position_embedding(std::string_view name, value x, position_embedding_options options,
                                   int line = __builtin_LINE()) {
  scope const inside(x.owner(), name, line);
  auto const table =
      parameter(x, "weight", shape(options.context, x.features()), role::embedding, {.stddev = options.stddev}, line);
  return emit<op::position_embedding>({x, table}, {}, line);
}

/// Like `position_embedding` without `positions`, but with the given position of each token instead of its index in the
/// sequence: positions [sequences, tokens] (i32, at least 0 and below `context`). For packed documents, they are the
/// positions that `self_attention` takes with `.documents`. If they are an input of the model, trainers and inference
/// objects check their values. A sequence may have more tokens than `context`. Refused: token ids as x, positions of a
/// different type or shape, a `context` below 1, and everything else that `parameter` refuses.
constexpr value position_embedding(std::string_view name, value x, value positions, position_embedding_options options,
                                   int line = __builtin_LINE()) {
  return add(
      x,
      embedding(name, positions,
                {.vocabulary = options.context, .width = static_cast<int>(x.features()), .stddev = options.stddev},
                line),
      line);
}

} // namespace constrain
