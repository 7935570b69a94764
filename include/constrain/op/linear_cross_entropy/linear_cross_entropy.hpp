#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"
#include "constrain/op/linear/linear.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Number of rows of logits that are stored at a time, out of `rows`: a tenth, rounded down to a multiple of 16; at
/// least 16, at most all rows. This saves about nine tenths of the logits' memory and keeps GEMMs large.
constexpr std::int64_t logit_rows(std::int64_t rows) {
  std::int64_t const tenth = rows / 10 / 16 * 16;
  std::int64_t const wanted = tenth < 16 ? 16 : tenth;
  return wanted < rows ? wanted : rows;
}

/// The shape rule of linear without bias followed by cross_entropy: x [..., in], W [classes, in], labels [...] and the
/// inverse of the number of valid labels -> the loss, a scalar.
constexpr inferred infer_linear_cross_entropy(operand_types const& in) {
  operand_types linear_in, loss_in;
  linear_in.push_back(in[0]);
  linear_in.push_back(in[1]);
  auto const logits = linear::infer(linear_in);
  if (logits.reason != why::nothing) return logits;
  loss_in.push_back(logits.outputs[0]);
  loss_in.push_back(in[2]);
  auto const loss = cross_entropy::infer(loss_in);
  return loss.reason != why::nothing ? loss : inferred::one(dtype::f64, {});
}

/// `result` with two more outputs, both scratch: the logits of one chunk of rows, and the loss of each row, so that the
/// losses are added in a fixed order.
constexpr inferred with_logit_workspace(inferred const& result, operand_types const& in) {
  auto const rows = in[0].shape.rows();
  return result.and_also(in[0].type, shape(logit_rows(rows), in[1].shape.extent[0])).and_also(dtype::f64, shape(rows));
}

/// linear without bias, cross_entropy and correct_predictions in one op, a chunk of rows at a time: loss (+)=
/// cross_entropy(x W^T, labels), and the number of correct predictions. (+)=: the first write in a run of the program
/// overwrites the output, later writes add to it. Inputs: x [..., in], W [classes, in], labels [...], and the inverse
/// of the number of valid labels. The pass `fuse` inserts this op.
struct linear_cross_entropy {
  static constexpr char const* name = "linear_cross_entropy";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b1100;

  static constexpr inferred infer(operand_types const& in) {
    auto const loss = infer_linear_cross_entropy(in);
    return loss.reason != why::nothing ? loss : with_logit_workspace(loss.and_also(dtype::f64, {}), in);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto result = cost_by_operands(in, out);
    auto const weight = static_cast<double>(in[1].shape.elements());
    auto const rows = in[0].shape.rows(), chunk = logit_rows(rows);
    result.flops = 2.0 * static_cast<double>(rows) * weight;
    result.bytes_read += static_cast<double>((rows - 1) / chunk * size_of(in[1].type)) * weight;
    return result;
  }
};

/// Fused forward and backward pass of the head (the linear layer that computes the logits) and of the loss: linear
/// without bias, cross_entropy and their gradients in one op, with the inputs of `linear_cross_entropy`. loss (+)=
/// cross_entropy(x W^T, labels); dx = the gradient of this loss with respect to x, and dW (+)= its gradient with
/// respect to W, both times `loss_gradient`, or times the loss scale (fp64, a scalar) if it is a fifth input. Each
/// chunk of rows computes its logits, their gradient in place, dx of these rows and its part of dW; the chunks add to
/// dW in order (Hsu et al. 2024, Liger Kernel). Chunks depend only on the number of rows, not on threads. The pass
/// `fuse` inserts this op.
struct linear_cross_entropy_forward_backward {
  struct options {
    double loss_gradient = 1; // the gradient that reaches the loss
  };
  static constexpr char const* name = "linear_cross_entropy_forward_backward";
  static constexpr unsigned accumulating = 0b101;
  static constexpr unsigned workspace = 0b11000;

  static constexpr inferred infer(operand_types const& in) {
    auto const loss = infer_linear_cross_entropy(in);
    if (loss.reason != why::nothing) return loss;
    return with_logit_workspace(
        loss.and_also(in[0].type, in[0].shape).and_also(accumulator_of(in[0].type), in[1].shape), in);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto result = cost_by_operands(in, out);
    auto const weight = static_cast<double>(in[1].shape.elements());
    auto const rows = in[0].shape.rows(), chunk = logit_rows(rows);
    auto const further_chunks = static_cast<double>((rows - 1) / chunk);
    result.flops = 6.0 * static_cast<double>(rows) * weight;
    // Every GEMM of every chunk reads the weight; every chunk after the first reads and writes dW.
    auto const weight_bytes = static_cast<double>(size_of(in[1].type)) * weight;
    auto const gradient_bytes = static_cast<double>(size_of(out[2].type)) * weight;
    result.bytes_read += weight_bytes + further_chunks * (2 * weight_bytes + gradient_bytes);
    result.bytes_written += further_chunks * gradient_bytes;
    return result;
  }
};

} // namespace constrain::op
