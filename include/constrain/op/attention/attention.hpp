#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/op/slice/slice.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/division.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `self_attention`.
struct attention_options {
  int heads = 1;           // number of query heads; must divide the width of the queries
  bool causal = true;      // whether each token attends only to itself and to earlier tokens
  int key_value_heads = 0; // number of key-value heads; must divide `heads`; 0: as many as `heads`
  int window = 0;          // sliding window: each token attends only to tokens less than `window` away; 0: no window
  bool documents = false;  // whether `mask` holds the positions of tokens in their documents, not lengths
};

namespace detail {
/// The number of key-value heads.
constexpr int key_value_heads(attention_options const& o) {
  return o.key_value_heads == 0 ? o.heads : o.key_value_heads;
}
/// The approximate fraction of the scores that the mask keeps, without regard to lengths and documents. `tokens`: the
/// number of tokens of a sequence.
constexpr double attended_fraction(attention_options const& o, std::int64_t tokens) {
  bool const is_narrow = o.window > 0 && o.window < tokens;
  double const window = is_narrow ? static_cast<double>(o.window) / static_cast<double>(tokens) : 1;
  return window * (2 - window) * (o.causal ? 0.5 : 1);
}
} // namespace detail

namespace op {

/// The gradient of op::attention: dq, dk and dv, with the shapes of q, k and v, from dy, q, k, v and the probabilities.
/// dk and dv are summed over the query heads that share a key-value head, in the order of these heads. The CPU kernel
/// rounds the sum to the type of dk and dv after each head. Output 3 is scratch for the gradient of the scores.
struct attention_gradient {
  using options = attention_options;
  static constexpr char const* name = "attention_gradient";
  static constexpr unsigned workspace = 0b1000;
  static constexpr unsigned strided_inputs = 0b1110; // q, k, v
  static constexpr unsigned strided_outputs = 0b111; // dq, dk, dv

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[1].type, in[1].shape)
        .and_also(in[2].type, in[2].shape)
        .and_also(in[3].type, in[3].shape)
        .and_also(in[4].type, in[4].shape);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const scores =
        static_cast<double>(in[4].shape.elements()) * constrain::detail::attended_fraction(o, in[0].shape.extent[1]);
    result.flops = 8.0 * scores * static_cast<double>(in[0].shape.features() / o.heads);
    return result;
  }
};

/// softmax(q k^T / sqrt(head width)) v per head (Vaswani et al. 2017, eq. 1): q [sequences, tokens, heads * head
/// width], k and v [sequences, tokens, key_value_heads * head width] -> [sequences, tokens, heads * head width]. Head h
/// of q uses head h / (heads / key_value_heads) of k and v (grouped-query attention, Ainslie et al. 2023). Input 3, if
/// present, is the length of each sequence; keys at or beyond the length have probability 0 (their values must be
/// finite: 0 times NaN is NaN). With `documents`, input 3 is the position of each token in its document; keys of other
/// documents have probability 0. The result of a query that attends to no key is 0. Output 1 holds the probabilities,
/// [sequences, heads, tokens, tokens], for the backward pass, so the memory is quadratic in the number of tokens.
struct attention {
  using options = attention_options;
  static constexpr char const* name = "attention";
  static constexpr char const* layouts = "-h, -h, -h, - -> -h, -";
  static constexpr unsigned strided_inputs = 0b111; // q, k, v

  /// Refused: a width of qkv that is not a multiple of 3. Checked only if there are as many key-value heads as query
  /// heads, or if the number of heads is below 1. `got`: the width.
  template <diagnosis d> struct qkv_width_is_not_a_multiple_of_three {
    static_assert(d.ok(), "ct::self_attention: the width of qkv, `got`, must be a multiple of 3, because queries, keys "
                          "and values lie side by side; pass for example ct::linear(..., 3 * x.features())");
  };
  /// Refused: a width of qkv that is not a multiple of the total number of heads, heads + 2 * key_value_heads, if there
  /// are fewer key-value heads than query heads. `expected`: the total number of heads. `got`: the width.
  template <diagnosis d> struct qkv_does_not_fit_the_heads {
    static_assert(d.ok(), "ct::self_attention: the width of qkv, `got`, is not a multiple of `expected`, which is "
                          "heads + 2 * key_value_heads; make the width (heads + 2 * key_value_heads) * head width");
  };
  /// Refused: a number of key-value heads that is negative or does not divide the number of heads. `expected`: the
  /// number of heads. `got`: the number of key-value heads.
  template <diagnosis d> struct key_value_heads_do_not_divide_the_heads {
    static_assert(d.ok(), "ct::self_attention: key_value_heads is `got`, but must be a positive divisor of the number "
                          "of heads, `expected`, or 0, which means one per query head");
  };
  /// Refused: keys or values with another element type than the queries.
  template <diagnosis d> struct keys_or_values_of_another_type {
    static_assert(d.ok(), "ct::self_attention: queries, keys and values must have the same element type, but do not; "
                          "make all three with ct::linear, whose results have one type, or cast all three with "
                          "ct::emit<ct::op::cast>({x}, {.to = ct::dtype::f32})");
  };
  /// Refused: keys or values whose shape does not fit the queries and the numbers of heads. `expected` and `got`: the
  /// numbers of dimensions if they differ, otherwise the innermost extents that differ.
  template <diagnosis d> struct keys_or_values_do_not_fit_the_queries {
    static_assert(d.ok(),
                  "ct::self_attention: keys and values must be [sequences, tokens, key_value_heads * head "
                  "width], with the sequences, the tokens and the head width of the queries, but their number of "
                  "dimensions or one of their extents is `got` instead of `expected`; make keys and values "
                  "with ct::linear(..., key_value_heads * q.features() / heads) from as many tokens as q");
  };
  /// Refused: lengths that are not i32 or not of shape [sequences]. `expected`: the number of sequences. `got`: the
  /// number of elements of the lengths.
  template <diagnosis d> struct lengths_do_not_fit {
    static_assert(d.ok(),
                  "ct::self_attention: lengths must be integers of shape [sequences]; declare the model's "
                  "input as {.name = \"lengths\", .each = ct::per::sequence} and pass it; if you pass positions "
                  "of tokens in documents, set .documents");
  };
  /// Refused: positions that are not i32 or not of shape [sequences, tokens], and `.documents` without positions.
  /// `expected` and `got`: the numbers of positions; `got` is 0 without positions.
  template <diagnosis d> struct positions_do_not_fit {
    static_assert(d.ok(), "ct::self_attention: with .documents, the positions of the tokens in their documents must be "
                          "integers of shape [sequences, tokens]; declare the model's input as {.name = \"positions\"} "
                          "and pass it after the queries, keys and values");
  };
  /// Refused: a window below 0. `got`: the window.
  template <diagnosis d> struct window_is_negative {
    static_assert(d.ok(), "ct::self_attention: .window is `got`, but must be the number of tokens that a token attends "
                          "to in one direction, itself included, or 0, which means no window");
  };
  /// Refused: a number of heads that is below 1 or does not divide the width. `expected`: the width of the queries.
  /// `got`: the number of heads.
  template <diagnosis d> struct heads_do_not_divide_the_width {
    static_assert(d.ok(), "ct::self_attention: the number of heads is `got`, but must be a positive divisor of the "
                          "width of the queries, `expected`");
  };

  /// Refused: a tensor group with more ranks (`expected`) than there are heads (`got`).
  template <diagnosis d> struct fewer_heads_than_ranks {
    static_assert(d.ok(), "parallel::tensor: an operation, `op`, has `got` heads, fewer than the `expected` ranks, so "
                          "it needs its input in the layout `needed`, but the ranks hold it in the layout `held`; "
                          "choose a number of ranks that divides the numbers of heads and of key-value heads");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in, 3); refusal.reason != why::nothing) return refusal;
    auto const& s = in[0].shape;
    if (s.rank != 3) return inferred::failure<wrong_number_of_dimensions>(3, s.rank);
    auto const width = s.features();
    auto const kv_heads = constrain::detail::key_value_heads(o);
    if (o.heads < 1 || width % o.heads != 0) return inferred::failure<heads_do_not_divide_the_width>(width, o.heads);
    if (kv_heads < 1 || o.heads % kv_heads != 0)
      return inferred::failure<key_value_heads_do_not_divide_the_heads>(o.heads, kv_heads);
    for (int i : {1, 2})
      if (in[i].type != in[0].type) return inferred::failure<keys_or_values_of_another_type>(0, 0);
    auto const expected_shape = s.with_features(width / o.heads * kv_heads);
    for (int i : {1, 2})
      if (auto const refusal = needs_one_shape({in[i].type, expected_shape}, in[i]); refusal.reason != why::nothing)
        return inferred::failure<keys_or_values_do_not_fit_the_queries>(refusal.expected, refusal.got);
    if (o.window < 0) return inferred::failure<window_is_negative>(0, o.window);
    if (auto const refusal = mask_operand(in, o); refusal.reason != why::nothing) return refusal;
    return inferred::one(in[0].type, s)
        .and_also(accumulator_of(in[0].type), shape(s.extent[0], o.heads, s.extent[1], s.extent[1]));
  }
  /// Refuses lengths or positions whose type or shape does not fit q [sequences, tokens, width], and `.documents`
  /// without positions. Otherwise, the result's reason is `nothing`.
  static constexpr inferred mask_operand(operand_types const& in, options const& o) {
    auto const& q = in[0].shape;
    if (!o.documents) {
      if (in.size() > 3 && (in[3].type != dtype::i32 || in[3].shape != shape(q.extent[0])))
        return inferred::failure<lengths_do_not_fit>(q.extent[0], in[3].shape.elements());
    } else if (in.size() < 4 || in[3].type != dtype::i32 || in[3].shape != shape(q.extent[0], q.extent[1]))
      return inferred::failure<positions_do_not_fit>(q.extent[0] * q.extent[1],
                                                     in.size() < 4 ? 0 : in[3].shape.elements());
    return inferred();
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    auto const scores =
        static_cast<double>(out[1].shape.elements()) * constrain::detail::attended_fraction(o, in[0].shape.extent[1]);
    result.flops = 4.0 * scores * static_cast<double>(out[0].shape.features() / o.heads);
    return result;
  }
  /// Changes the options for one rank, which computes a range of the heads. Returns false if the query heads or the
  /// key-value heads cannot be divided evenly over the ranks, or if input 0 has several parts. Refuses fewer heads than
  /// ranks.
  static constexpr bool divide(options& o, division& d) {
    if (o.heads < d.ranks) return d.refuse<fewer_heads_than_ranks>(d.ranks, o.heads);
    bool const is_possible = d.parts.extents.size() == 1 && o.heads % d.ranks == 0 && o.key_value_heads % d.ranks == 0;
    o.heads /= d.ranks, o.key_value_heads /= d.ranks;
    return is_possible;
  }
  static constexpr void gradient(backward& b) {
    // Keys in the padding and in other documents have probability 0, so their scores have gradient 0, and the gradient
    // needs neither lengths nor positions.
    b.emit<attention_gradient>({b.gradient(), b.input(0), b.input(1), b.input(2), b.output(1)}, {0, 1, 2, -1},
                               b.options<attention>());
  }
};

} // namespace op

namespace detail {

/// Queries, keys and values.
struct attention_inputs {
  value q, k, v;
};

/// Types and shapes of queries, keys and values that are side by side in qkv, the operand `in[0]`; or why qkv is
/// refused.
constexpr inferred shapes_in_qkv(operand_types const& in, attention_options const& o) {
  if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
  auto const& s = in[0].shape;
  if (s.rank != 3) return inferred::failure<op::wrong_number_of_dimensions>(3, s.rank);
  std::int64_t const features = s.features(), kv_heads = key_value_heads(o);
  auto width = features / 3;
  if (kv_heads == o.heads || o.heads < 1) {
    if (features % 3 != 0) return inferred::failure<op::attention::qkv_width_is_not_a_multiple_of_three>(3, features);
  } else {
    if (kv_heads < 1 || o.heads % kv_heads != 0)
      return inferred::failure<op::attention::key_value_heads_do_not_divide_the_heads>(o.heads, kv_heads);
    auto const total_heads = o.heads + 2 * kv_heads;
    if (features % total_heads != 0)
      return inferred::failure<op::attention::qkv_does_not_fit_the_heads>(total_heads, features);
    width = features / total_heads * o.heads;
  }
  auto const type = in[0].type;
  auto const keys = s.with_features((features - width) / 2);
  return inferred::one(type, s.with_features(width)).and_also(type, keys).and_also(type, keys);
}

/// Declares the range of a mask's elements, which trainers and inference objects check: [0, tokens] for lengths,
/// [0, tokens) for positions, where `tokens` is the number of tokens of q.
constexpr void limit_mask(value q, value mask, attention_options const& o) {
  if (q.shape().rank == 3) mask.owner().program.limit(mask.where(), q.shape().extent[1] + (o.documents ? 0 : 1));
}

/// Splits qkv into queries, keys and values. Refuses the program if `shapes_in_qkv` refuses qkv; all three results are
/// then qkv.
constexpr attention_inputs split_qkv(value qkv, attention_options const& options, int line) {
  auto& owner = qkv.owner();
  operand_types in;
  in.push_back(owner.type_of(qkv.where()));
  auto const parts = shapes_in_qkv(in, options);
  if (parts.reason != why::nothing) {
    owner.program.fail(parts.at(line, owner.called_from));
    return {qkv, qkv, qkv};
  }
  auto const width = parts.outputs[0].shape.features(), key_width = parts.outputs[1].shape.features();
  return {slice(qkv, 2, 0, width, line), slice(qkv, 2, width, key_width, line),
          slice(qkv, 2, width + key_width, key_width, line)};
}

} // namespace detail

/// Multi-head self-attention (Vaswani et al. 2017): q [sequences, tokens, heads * head width], k and v [sequences,
/// tokens, key_value_heads * head width] -> [sequences, tokens, heads * head width]. With fewer key-value heads than
/// query heads, head h of q uses head h / (heads / key_value_heads) of k and v, as in PyTorch's
/// scaled_dot_product_attention with enable_gqa=True. The policy `attention::...` chooses the algorithm. Refused: token
/// ids, a q that does not have three dimensions, a number of heads that is below 1 or does not divide the width of q, a
/// number of key-value heads that is below 0 or does not divide the number of heads, a k or v whose type or shape does
/// not fit q and the numbers of heads, a window below 0, and `.documents` without a mask.
constexpr value self_attention(value q, value k, value v, attention_options options, int line = __builtin_LINE()) {
  return emit<op::attention>({q, k, v}, options, line);
}

/// `self_attention` with a mask that depends on the data. Also refused: a mask of another type or shape than below.
///
/// - Padded sequences: `mask` [sequences] (i32, from 0 to tokens) holds the length of each sequence, its number of
///   tokens; no token attends to the padding after these tokens.
/// - With `.documents`: each sequence holds documents one after another (packed sequences), and no token attends to
///   another document. `mask` [sequences, tokens] (i32, from 0 to tokens - 1) holds the position of each token in its
///   document: it is 0 at the first token of a document and then grows by 1, like `position_ids` of packed sequences in
///   Hugging Face Transformers. Other positions give undefined results. Padding must be a separate document.
constexpr value self_attention(value q, value k, value v, value mask, attention_options options,
                               int line = __builtin_LINE()) {
  detail::limit_mask(q, mask, options);
  return emit<op::attention>({q, k, v, mask}, options, line);
}

/// `self_attention` of queries, keys and values that one matmul has computed. For each token, qkv [sequences, tokens,
/// (heads + 2 * key_value_heads) * head width] holds the queries, then the keys, then the values. If key_value_heads is
/// 0, the width of qkv is three times the width of the queries. Also refused: a qkv whose width does not fit the
/// options.
constexpr value self_attention(value qkv, attention_options options, int line = __builtin_LINE()) {
  auto const [q, k, v] = detail::split_qkv(qkv, options, line);
  return self_attention(q, k, v, options, line);
}

/// `self_attention` of queries, keys and values that one matmul has computed, with a mask that depends on the data:
/// lengths, or positions in documents.
constexpr value self_attention(value qkv, value mask, attention_options options, int line = __builtin_LINE()) {
  auto const [q, k, v] = detail::split_qkv(qkv, options, line);
  return self_attention(q, k, v, mask, options, line);
}

} // namespace constrain
