#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `self_attention`.
struct attention_options {
  int heads = 1;      // must divide the width
  bool causal = true; // whether each token attends only to itself and to earlier tokens
};

namespace op {

/// The gradient of op::attention: dqkv from dy, qkv and the probabilities. Output 1 is scratch for the gradient of the
/// scores.
struct attention_gradient {
  using options = attention_options;
  static constexpr char const* name = "attention_gradient";
  static constexpr unsigned workspace = 0b10;

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[1].type, in[1].shape).and_also(in[2].type, in[2].shape);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const scores = static_cast<double>(in[2].shape.elements()) * (o.causal ? 0.5 : 1);
    result.flops = 8.0 * scores * static_cast<double>(in[0].shape.features() / o.heads);
    return result;
  }
};

/// softmax(q k^T / sqrt(head width)) v per head (Vaswani et al. 2017, eq. 1): qkv [sequences, tokens, 3 width] ->
/// [sequences, tokens, width]. Input 1, if given, is the length of each sequence: keys at or beyond it have probability
/// 0; without any key a query's result is 0. Output 1 keeps the probabilities, [sequences, heads, tokens, tokens], for
/// the backward pass: memory is quadratic in the number of tokens.
struct attention {
  using options = attention_options;
  static constexpr char const* name = "attention";

  /// Refused: a width of qkv that is no multiple of 3. `got`: the width.
  template <diagnosis d> struct qkv_is_not_three_times_the_width {
    static_assert(d.ok(), "ct::self_attention needs queries, keys and values side by side, so its input's width must "
                          "be a multiple of 3; pass for example ct::linear(..., 3 * x.features())");
  };
  /// Refused: lengths that are not one integer per sequence.
  template <diagnosis d> struct lengths_do_not_fit {
    static_assert(d.ok(), "ct::self_attention: lengths must be integers [sequences]; declare the model's input as "
                          "{.name = \"lengths\", .each = ct::per::sequence} and pass it");
  };
  /// Refused: heads that do not divide the width.
  template <diagnosis d> struct heads_do_not_divide_the_width {
    static_assert(d.ok(), "ct::self_attention: the width `expected` is not a multiple of `got` heads; choose a number "
                          "of heads that divides the width");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const wrong = needs_reals(in); wrong.reason != why::nothing) return wrong;
    auto const& s = in[0].shape;
    if (s.rank != 3) return inferred::failure<axis_is_not_there>(3, s.rank);
    if (s.features() % 3 != 0) return inferred::failure<qkv_is_not_three_times_the_width>(3, s.features());
    auto const width = s.features() / 3;
    if (o.heads < 1 || width % o.heads != 0) return inferred::failure<heads_do_not_divide_the_width>(width, o.heads);
    if (in.size() > 1 && (in[1].type != dtype::i32 || in[1].shape != shape(s.extent[0])))
      return inferred::failure<lengths_do_not_fit>(s.extent[0], in[1].shape.elements());
    return inferred::one(in[0].type, s.with_features(width))
        .and_also(accumulator_of(in[0].type), shape(s.extent[0], o.heads, s.extent[1], s.extent[1]));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const scores = static_cast<double>(out[1].shape.elements()) * (o.causal ? 0.5 : 1);
    result.flops = 4.0 * scores * static_cast<double>(out[0].shape.features() / o.heads);
    return result;
  }
  static constexpr void gradient(backward& b) {
    // Masked keys have probability 0, and so a gradient of 0: the lengths are not needed again.
    b.emit<attention_gradient>({b.gradient(), b.input(0), b.output(1)}, {0, -1}, b.options<attention>());
  }
};

} // namespace op

/// Multi-head self-attention (Vaswani et al. 2017). For each token, qkv [sequences, tokens, 3 width] holds queries,
/// then keys, then values, each [heads, head width]; the result is [sequences, tokens, width]. The policy
/// `attention::...` chooses the algorithm. Refused: token ids, qkv of another rank than 3, an innermost extent that is
/// no multiple of 3, and a number of heads that is below 1 or does not divide the width.
constexpr value self_attention(value qkv, attention_options options, int line = __builtin_LINE()) {
  return emit<op::attention>({qkv}, options, line);
}

/// `self_attention` for padded sequences: lengths [sequences] (i32, from 0 to tokens) has the number of tokens of each;
/// no token attends to those behind. The algorithm is always attention::reference, and there is no CUDA kernel. Also
/// refused: lengths of another type or shape.
constexpr value self_attention(value qkv, value lengths, attention_options options, int line = __builtin_LINE()) {
  if (qkv.shape().rank == 3) lengths.owner().program.limit(lengths.where(), qkv.shape().extent[1] + 1);
  return emit<op::attention>({qkv, lengths}, options, line);
}

} // namespace constrain
