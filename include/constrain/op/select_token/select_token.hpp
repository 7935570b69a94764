#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The gradient of op::select_token: dx[b, index, :] = dy[b, :], and dx is 0 for the other tokens. dy
/// [sequences, width] -> [sequences, tokens, width].
struct select_token_gradient {
  struct options {
    int index = 0;           // index of the selected token in a sequence, counted from 0
    std::int64_t tokens = 0; // tokens of a sequence
  };
  static constexpr char const* name = "select_token_gradient";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, shape(in[0].shape.extent[0], o.tokens, in[0].shape.extent[1]));
  }
};

/// y[b, :] = x[b, index, :]: x [sequences, tokens, width] -> [sequences, width].
struct select_token {
  struct options {
    int index = 0; // index of the selected token in a sequence, counted from 0
  };
  static constexpr char const* name = "select_token";

  /// Refused: an index outside of [0, tokens). `expected`: the number of tokens. `got`: the index.
  template <diagnosis d> struct no_such_token {
    static_assert(d.ok(), "ct::select_token: there is no token `got` in sequences of `expected` tokens; pass an index "
                          "from 0 to `expected` - 1");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    auto const& s = in[0].shape;
    if (s.rank != 3) return inferred::failure<wrong_number_of_dimensions>(3, s.rank);
    if (o.index < 0 || o.index >= s.extent[1]) return inferred::failure<no_such_token>(s.extent[1], o.index);
    return inferred::one(in[0].type, shape(s.extent[0], s.extent[2]));
  }
  static constexpr void gradient(backward& b) {
    b.emit<select_token_gradient>({b.gradient()}, {0},
                                  {.index = b.options<select_token>().index, .tokens = b.input(0).shape().extent[1]});
  }
};

} // namespace op

/// Token `index` of each sequence: x [sequences, tokens, width] -> [sequences, width]. Refused: token ids, an x that
/// does not have three dimensions, and an index that is not in [0, tokens).
constexpr value select_token(value x, int index, int line = __builtin_LINE()) {
  return emit<op::select_token>({x}, {.index = index}, line);
}

} // namespace constrain
