#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `rotary_table`. The fields after `theta` change the frequencies of a model that was trained on short
/// sequences, so that the model can process longer ones.
struct rotary_options {
  int head_width = 0;       // elements of a head, an even number of at least 2; required
  double theta = 10000;     // base of the frequencies, from 1 to 1e30
  double factor = 1;        // divides low frequencies, from 1 to 1e30; 1: no change
  int original_context = 0; // tokens of the short sequences, at least 0; 0: `factor` divides all frequencies
                            // (Chen et al. 2023, "Extending Context Window ... via Positional Interpolation")
  // With `original_context`, as in Llama 3.1: the frequency of a pair that makes fewer than `low_freq_factor` turns in
  // the original context is divided by `factor`; with more than `high_freq_factor` turns, it does not change; in
  // between, it is a weighted mean of the divided and the unchanged frequency, with weights that are linear in the
  // number of turns. Required, also without `original_context`: 0 < low_freq_factor < high_freq_factor <= 1e30.
  double low_freq_factor = 1, high_freq_factor = 4;
};

namespace op {

/// The cosines and sines of rotary position embeddings (Su et al. 2021, "RoFormer", section 3.2.2), from x [sequences,
/// tokens, width], whose elements are not read -> [tokens, head width]. With the frequency f_j = theta^(-2 j / head
/// width), changed as `rotary_options` describes, element j of row t is cos(t f_j), and element head width / 2 + j is
/// sin(t f_j), for j < head width / 2.
struct rotary_table {
  using options = rotary_options;
  static constexpr char const* name = "rotary_table";
  static constexpr char const* layouts = "# -> -";

  /// Refused: a head width, `got`, that is odd or below 2.
  template <diagnosis d> struct head_width_is_odd {
    static_assert(d.ok(), "ct::rotary_table: .head_width is `got`, but must be even and at least 2, because the "
                          "elements of a head are rotated in pairs");
  };
  /// Refused: frequency options outside the ranges that `rotary_options` gives.
  template <diagnosis d> struct frequencies_are_out_of_range {
    static_assert(d.ok(), "ct::rotary_table: .theta and .factor must be from 1 to 1e30, .original_context at least 0, "
                          "and 0 < .low_freq_factor < .high_freq_factor <= 1e30");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    if (in[0].shape.rank != 3) return inferred::failure<wrong_number_of_dimensions>(3, in[0].shape.rank);
    if (o.head_width < 2 || o.head_width % 2 != 0) return inferred::failure<head_width_is_odd>(2, o.head_width);
    bool const in_range = o.theta >= 1 && o.theta <= 1e30 && o.factor >= 1 && o.factor <= 1e30 &&
                          o.original_context >= 0 && o.low_freq_factor > 0 && o.low_freq_factor < o.high_freq_factor &&
                          o.high_freq_factor <= 1e30;
    if (!in_range) return inferred::failure<frequencies_are_out_of_range>(0, 0);
    return inferred::one(accumulator_of(in[0].type), shape(in[0].shape.extent[1], o.head_width));
  }
  /// The table depends on no parameter.
  static constexpr void gradient(backward&) {}
};

/// Rotates each pair of elements j and head width / 2 + j of each head by the angle of its token and frequency:
///
///     y[j]                  = x[j] cos - x[head width / 2 + j] sin
///     y[head width / 2 + j] = x[head width / 2 + j] cos + x[j] sin
///
/// x [sequences, tokens, heads * head width], table [rows, head width] from `rotary_table` -> the shape of x. Input 2,
/// if present, is the position of each token, [sequences, tokens] (i32): the row of the table that the token uses.
/// Without it, the position of a token is its index in the sequence, so the table must have at least as many rows as a
/// sequence has tokens. The pairs are the pairs of Llama in Hugging Face Transformers, not adjacent elements as in the
/// paper. The gradient rotates back.
struct rotary_embedding {
  struct options {
    int head_width = 1; // elements of a head, equal to the width of the table
    bool back = false;  // whether to rotate by the negative angles
  };
  static constexpr char const* name = "rotary_embedding";
  static constexpr char const* layouts = "-h, -, - -> -h";
  static constexpr unsigned in_place = 0b1;
  static constexpr unsigned strided_inputs = 0b1;
  static constexpr unsigned strided_outputs = 0b1;

  /// Refused: a width of x, `got`, that is not a multiple of the table's head width, `expected`.
  template <diagnosis d> struct heads_do_not_fit_the_table {
    static_assert(d.ok(), "ct::rotary_embedding: the width of x, `got`, is not a multiple of the table's head width, "
                          "`expected`; make .head_width of ct::rotary_table the width of one head");
  };
  /// Refused: a table of odd width, `got`. (`rotary_table` makes no such table.)
  template <diagnosis d> struct table_width_is_odd {
    static_assert(d.ok(), "ct::rotary_embedding: the width of the table is `got`, but must be even, because the "
                          "table holds as many cosines as sines; make the table with ct::rotary_table");
  };
  /// Refused: a table that is not a matrix. `got`: its number of dimensions.
  template <diagnosis d> struct table_is_not_a_matrix {
    static_assert(d.ok(), "ct::rotary_embedding: the table has `got` dimensions, but must be a matrix [tokens, width]; "
                          "make the table with ct::rotary_table");
  };
  /// Refused: without positions, an x with more tokens than the table has rows. `expected`: the number of rows. `got`:
  /// the number of tokens.
  template <diagnosis d> struct table_is_too_short {
    static_assert(d.ok(), "ct::rotary_embedding: x has `got` tokens, but the table has only `expected` rows; pass "
                          "ct::rotary_table a value with as many tokens as x");
  };

  /// Refused: positions that are not i32 of shape [sequences, tokens]. `expected`: sequences * tokens. `got`: the
  /// number of elements of the positions, which may be equal to `expected`.
  template <diagnosis d> struct positions_do_not_fit {
    static_assert(d.ok(), "ct::rotary_embedding: positions must be integers of shape [sequences, tokens]; declare the "
                          "model's input as {.name = \"positions\"} and pass it");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in, 2); refusal.reason != why::nothing) return refusal;
    auto const& x = in[0].shape;
    auto const& table = in[1].shape;
    if (x.rank != 3) return inferred::failure<wrong_number_of_dimensions>(3, x.rank);
    if (table.rank != 2) return inferred::failure<table_is_not_a_matrix>(2, table.rank);
    if (table.features() % 2 != 0) return inferred::failure<table_width_is_odd>(0, table.features());
    if (o.head_width != table.features()) return inferred::failure<widths_differ>(table.features(), o.head_width);
    if (x.features() % table.features() != 0)
      return inferred::failure<heads_do_not_fit_the_table>(table.features(), x.features());
    if (in.size() > 2) {
      auto const needed = shape(x.extent[0], x.extent[1]);
      if (in[2].type != dtype::i32 || in[2].shape != needed)
        return inferred::failure<positions_do_not_fit>(needed.elements(), in[2].shape.elements());
    } else if (x.extent[1] > table.extent[0])
      return inferred::failure<table_is_too_short>(table.extent[0], x.extent[1]);
    return inferred::one(in[0].type, x);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto cost = cost_by_operands(in, out);
    cost.flops = 3.0 * static_cast<double>(in[0].shape.elements());
    return cost;
  }
  /// Each rank rotates full heads. Returns false if the heads of a part of x cannot be divided evenly over the ranks.
  static constexpr bool divide(options const& o, division& d) {
    for (auto const extent : d.parts.extents)
      if (extent % (std::int64_t{d.ranks} * o.head_width) != 0) return false;
    return true;
  }
  static constexpr void gradient(backward& b) {
    auto inverse = b.options<rotary_embedding>();
    inverse.back = !inverse.back;
    if (b.inputs() == 2) b.emit<rotary_embedding>({b.gradient(), b.input(1)}, {0}, inverse);
    else b.emit<rotary_embedding>({b.gradient(), b.input(1), b.input(2)}, {0}, inverse);
  }
};

} // namespace op

/// The cosines and sines for `rotary_embedding`: x [sequences, tokens, width], of which only the type and the number of
/// tokens are used -> [tokens, head width]. Make one table before the `repeat` of the layers; all layers can use it.
/// Refused: token ids, an x that does not have three dimensions, and options out of range.
constexpr value rotary_table(value x, rotary_options options, int line = __builtin_LINE()) {
  return emit<op::rotary_table>({x}, options, line);
}

/// Rotary position embeddings (Su et al. 2021), as Llama and Qwen apply them to queries and keys: x [sequences, tokens,
/// heads * head width], table [tokens, head width] from `rotary_table` -> the shape of x. The table gets no gradient.
/// Refused: token ids, an x that does not have three dimensions, a table that does not have two, a table of odd width,
/// a width of x that is not a multiple of the table's width, and more tokens than the table has rows.
constexpr value rotary_embedding(value x, value table, int line = __builtin_LINE()) {
  return emit<op::rotary_embedding>({x, table}, {.head_width = static_cast<int>(table.shape().features())}, line);
}

/// Like `rotary_embedding` without `positions`, but with the given position of each token instead of its index in the
/// sequence: positions [sequences, tokens] (i32, at least 0 and below the number of rows of the table). For packed
/// documents, they are the positions that `self_attention` takes with `.documents`. If they are an input of the model,
/// trainers and inference objects check their values. x may have more tokens than the table has rows. Also refused:
/// positions of a different type or shape.
constexpr value rotary_embedding(value x, value table, value positions, int line = __builtin_LINE()) {
  if (table.shape().rank == 2) positions.owner().program.limit(positions.where(), table.shape().extent[0]);
  return emit<op::rotary_embedding>({x, table, positions}, {.head_width = static_cast<int>(table.shape().features())},
                                    line);
}

} // namespace constrain
