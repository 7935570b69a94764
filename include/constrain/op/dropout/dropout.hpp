#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/op/sum_parts/sum_parts.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/setting.hpp"

#include <concepts>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// dropout fused with linear_bias_gradient: dy [..., out], p (the probability: fp64, a scalar) -> dx = dropout(dy, p),
/// and db (+)= the sum of the rows of dx, [out]; if row_sum_options::parts is not 0, db = the sums over each part of
/// the rows, [parts, out]. (+)=: the first write in a run of the program overwrites db; later writes add to it. The
/// pass `fuse` inserts this op.
struct dropout_bias_gradient {
  using options = row_sum_options;
  static constexpr char const* name = "dropout_bias_gradient";
  static constexpr unsigned in_place = 0b1;
  static constexpr unsigned accumulating = 0b10;
  static constexpr unsigned row_sums = 0b10;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, in[0].shape)
        .and_also(accumulator_of(in[0].type), o.sums_of(in[0].shape.features()));
  }
};

/// x, p -> y: zeroes each element of x with probability p (fp64, a scalar in [0, 1)), and multiplies the others by
/// 1 / (1 - p) (Srivastava et al. 2014). A counter-based generator (Philox: Salmon et al. 2011) computes the mask from
/// the seed, the optimizer step, a key that the node shares with its gradient and its recomputation, the iterations of
/// the loops around the node (except the loop over micro-batches), and the position of the element in the batch.
/// Therefore, the mask is not stored: the gradient applies the same op to dy and recomputes the same mask.
struct dropout {
  static constexpr char const* name = "dropout";
  static constexpr unsigned in_place = 0b1;
  static constexpr bool only_in_training = true;
  static constexpr bool draws_random = true;
  using with_bias_gradient = dropout_bias_gradient;

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    return inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(backward& b) { b.emit<dropout>({b.gradient(), b.input(1)}, {0}); }
};

} // namespace op

/// Dropout on x [sequences, ...]; the probability is the setting "dropout", in [0, 1), whose initial value is the run
/// option `.dropout` (0 by default). Only `step` applies dropout: in `evaluate`, `predict` and `generate`, the result
/// is x. If the first dimension is not the sequences of the micro-batch, rows of different micro-batches and ranks may
/// get the same mask. Refused: token ids.
constexpr value dropout(value x, int line = __builtin_LINE()) {
  return emit<op::dropout>({x, detail::setting_of(x, detail::dropout_setting)}, {}, line);
}
/// Does not compile: the probability is a setting of the run, not an argument.
template <std::floating_point real> constexpr value dropout(value x, real) {
  static_assert(sizeof(real) == 0, "ct::dropout takes no probability; set the initial probability with the "
                                   "option `.dropout` of run_options, for example {.dropout = 0.1f}");
  return x;
}

} // namespace constrain
