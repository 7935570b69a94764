#pragma once

#include "constrain/op/attention/attention.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The gradient of op::flash_attention: dqkv from dy, qkv, y and the logsumexp of each query; the probabilities are
/// recomputed a tile at a time (Dao 2023, algorithm 2). Output 1 is scratch: sum(dy * y) for each head and token, and
/// the sums of dk and dv if their type is wider than the elements of dqkv. Options as of op::flash_attention.
struct flash_attention_gradient {
  using options = attention_options;
  static constexpr char const* name = "flash_attention_gradient";
  static constexpr unsigned workspace = 0b10;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const& s = in[0].shape;
    auto const sums = in[0].type == in[3].type ? 0 : 2 * s.features();
    return inferred::one(in[1].type, in[1].shape).and_also(in[3].type, shape(s.extent[0], s.extent[1], o.heads + sums));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const rows = static_cast<double>(in[3].shape.elements());
    auto const scores = rows * static_cast<double>(in[0].shape.extent[1]) * (o.causal ? 0.5 : 1);
    result.flops = 10.0 * scores * static_cast<double>(in[0].shape.features() / o.heads);
    return result;
  }
};

/// The same function as op::attention, softmax(q k^T / sqrt(head width)) v per head, in memory linear in the number of
/// tokens: the kernel stores only a tile of the scores at a time (Dao et al. 2022, algorithm 1). qkv [sequences,
/// tokens, 3 width] -> [sequences, tokens, width]. Output 1 keeps the logsumexp of the scaled scores of each query,
/// [sequences, heads, tokens], for the backward pass.
struct flash_attention {
  using options = attention_options;
  static constexpr char const* name = "flash_attention";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const quadratic = attention::infer(in, o);
    if (quadratic.outputs.empty()) return quadratic;
    auto const& s = in[0].shape;
    return inferred::one(in[0].type, quadratic.outputs[0].shape)
        .and_also(accumulator_of(in[0].type), shape(s.extent[0], o.heads, s.extent[1]));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const rows = static_cast<double>(out[1].shape.elements());
    auto const scores = rows * static_cast<double>(in[0].shape.extent[1]) * (o.causal ? 0.5 : 1);
    result.flops = 4.0 * scores * static_cast<double>(out[0].shape.features() / o.heads);
    return result;
  }
  static constexpr void gradient(backward& b) {
    b.emit<flash_attention_gradient>({b.gradient(), b.input(0), b.output(0), b.output(1)}, {0, -1},
                                     b.options<flash_attention>());
  }
};

} // namespace op

/// Multi-head self-attention in memory linear in the number of tokens. For each token, qkv [sequences, tokens, 3 width]
/// holds queries, then keys, then values, each [heads, head width]; the result is [sequences, tokens, width]. Only the
/// CPU has kernels for it so far. Models call `self_attention` instead: there the policy `attention::...` chooses the
/// algorithm. Refused: the same input as by `self_attention`.
constexpr value flash_attention(value qkv, attention_options options, int line = __builtin_LINE()) {
  return emit<op::flash_attention>({qkv}, options, line);
}

} // namespace constrain
