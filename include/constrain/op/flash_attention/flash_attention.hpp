#pragma once

#include "constrain/op/attention/attention.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The gradient of op::flash_attention: dq, dk and dv, with the shapes of q, k and v, from dy, q, k, v, y and the
/// logsumexp of each query. The probabilities are recomputed tile by tile (Dao 2023, algorithm 2). Input 6, if present,
/// is the length of each sequence or, with `documents`, the position of each token in its document; the gradients of
/// keys and values at or beyond the length are 0. dk and dv are summed over the query heads that share a key-value
/// head, in the order of these heads. Output 3 is scratch: sum(dy y) for each head and token (on CUDA devices, -sum(dy
/// y)), and, on the CPU, the sums of dk and dv if the sums have a wider type than dk and dv.
struct flash_attention_gradient {
  using options = attention_options;
  static constexpr char const* name = "flash_attention_gradient";
  static constexpr unsigned workspace = 0b1000;
  static constexpr unsigned strided_inputs = 0b1110; // q, k, v
  static constexpr unsigned strided_outputs = 0b111; // dq, dk, dv

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const& s = in[0].shape;
    auto const sums = in[0].type == in[5].type ? 0 : in[2].shape.features() + in[3].shape.features();
    return inferred::one(in[1].type, in[1].shape)
        .and_also(in[2].type, in[2].shape)
        .and_also(in[3].type, in[3].shape)
        .and_also(in[5].type, shape(s.extent[0], s.extent[1], o.heads + sums));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const tokens = in[0].shape.extent[1];
    auto const scores =
        static_cast<double>(in[5].shape.elements() * tokens) * constrain::detail::attended_fraction(o, tokens);
    result.flops = 10.0 * scores * static_cast<double>(in[0].shape.features() / o.heads);
    return result;
  }
};

/// The same function as op::attention, but with memory linear in the number of tokens: each thread of the CPU kernel,
/// and each block of the CUDA kernel, holds only one tile of the scores at a time (Dao 2023, algorithm 1). Output 1
/// holds the logsumexp of the scaled scores of each query, [sequences, heads, tokens], for the backward pass. The
/// result and the logsumexp of a query that attends to no key are 0. Keys and values at or beyond the length are not
/// read. For a tile of queries, only tiles of keys to which at least one of these queries attends are read.
struct flash_attention {
  using options = attention_options;
  using written_as = attention;
  static constexpr char const* name = "flash_attention";
  static constexpr char const* layouts = "-h, -h, -h, - -> -h, -";
  static constexpr unsigned strided_inputs = 0b111; // q, k, v

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const quadratic = attention::infer(in, o);
    if (quadratic.outputs.empty()) return quadratic;
    auto const& s = in[0].shape;
    return inferred::one(in[0].type, quadratic.outputs[0].shape)
        .and_also(accumulator_of(in[0].type), shape(s.extent[0], o.heads, s.extent[1]));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const tokens = in[0].shape.extent[1];
    auto const scores =
        static_cast<double>(out[1].shape.elements() * tokens) * constrain::detail::attended_fraction(o, tokens);
    result.flops = 4.0 * scores * static_cast<double>(out[0].shape.features() / o.heads);
    return result;
  }
  /// Changes the options for one rank, as `attention::divide` does, with the same result.
  static constexpr bool divide(options& o, division& d) { return attention::divide(o, d); }
  static constexpr void gradient(backward& b) {
    auto const emit = [&](std::initializer_list<value> inputs) {
      b.emit<flash_attention_gradient>(inputs, {0, 1, 2, -1}, b.options<flash_attention>());
    };
    if (b.inputs() == 3) emit({b.gradient(), b.input(0), b.input(1), b.input(2), b.output(0), b.output(1)});
    else emit({b.gradient(), b.input(0), b.input(1), b.input(2), b.output(0), b.output(1), b.input(3)});
  }
};

} // namespace op

/// `self_attention` of q, k and v with memory linear in the number of tokens. Models usually call `self_attention`, for
/// which the policy `attention::...` chooses the algorithm. Refused: the same inputs as for `self_attention`.
constexpr value flash_attention(value q, value k, value v, attention_options options, int line = __builtin_LINE()) {
  return emit<op::flash_attention>({q, k, v}, options, line);
}

/// `flash_attention` with a mask that depends on the data: lengths, or positions in documents, as for `self_attention`.
constexpr value flash_attention(value q, value k, value v, value mask, attention_options options,
                                int line = __builtin_LINE()) {
  detail::limit_mask(q, mask, options);
  return emit<op::flash_attention>({q, k, v, mask}, options, line);
}

/// `flash_attention` of queries, keys and values that are side by side in qkv, as for `self_attention`. Also refused: a
/// qkv whose width does not fit the options.
constexpr value flash_attention(value qkv, attention_options options, int line = __builtin_LINE()) {
  auto const [q, k, v] = detail::split_qkv(qkv, options, line);
  return flash_attention(q, k, v, options, line);
}

} // namespace constrain
