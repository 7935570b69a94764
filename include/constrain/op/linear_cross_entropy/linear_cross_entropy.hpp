#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"
#include "constrain/op/linear/linear.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// How many rows of logits are there at a time: the largest multiple of 16 that is at most a tenth of the rows, so that
/// nine tenths of the logits are never stored and the GEMMs stay large; at least 16, but no more than there are.
constexpr std::int64_t logit_rows(std::int64_t rows) {
  std::int64_t const tenth = rows / 10 / 16 * 16;
  std::int64_t const wanted = tenth < 16 ? 16 : tenth;
  return wanted < rows ? wanted : rows;
}

/// The shape rule of a product without bias that only a cross-entropy reads: x [..., in], W [classes, in], labels
/// [...].
constexpr inferred infer_linear_cross_entropy(operand_types const& in) {
  operand_types linear_in, loss_in;
  linear_in.push_back(in[0]);
  linear_in.push_back(in[1]);
  auto const logits = linear::infer(linear_in, {});
  if (logits.reason != why::nothing) return logits;
  loss_in.push_back(logits.outputs[0]);
  loss_in.push_back(in[2]);
  auto const loss = cross_entropy::infer(loss_in, {});
  return loss.reason != why::nothing ? loss : inferred::one(dtype::f64, {});
}

/// The workspace: the logits of one chunk of rows, and each row's share of the loss, so that their sum has a fixed
/// order.
constexpr inferred with_logit_workspace(inferred const& result, operand_types const& in) {
  auto const rows = in[0].shape.rows();
  return result.and_also(in[0].type, shape(logit_rows(rows), in[1].shape.extent[0])).and_also(dtype::f64, shape(rows));
}

/// loss (+)= cross_entropy(x W^T, labels) and how many labels are the index of their row's largest logit, a chunk of
/// rows at a time: x [..., in], W [classes, in], labels [...]. Stands for linear, cross_entropy and
/// correct_predictions; the pass `fuse` writes it.
struct linear_cross_entropy {
  static constexpr char const* name = "linear_cross_entropy";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b1100;

  static constexpr inferred infer(operand_types const& in, attributes const&) {
    auto const loss = infer_linear_cross_entropy(in);
    return loss.reason != why::nothing ? loss : with_logit_workspace(loss.and_also(dtype::f64, {}), in);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, attributes const& a) {
    auto result = cost_by_operands(in, out, a);
    auto const weight = static_cast<double>(in[1].shape.elements());
    auto const rows = in[0].shape.rows(), chunk = logit_rows(rows);
    result.flops = 2.0 * static_cast<double>(rows) * weight;
    result.bytes_read += static_cast<double>((rows - 1) / chunk * size_of(in[1].type)) * weight;
    return result;
  }
};

/// A training step of the same at once: loss (+)= cross_entropy(x W^T, labels), dx and dW (+)= its gradients times the
/// real attribute 0, the gradient of the loss. A chunk of rows at a time: logits, their gradient in place, dx of the
/// chunk, and its part of dW, added in the order of the chunks. The chunks follow from the rows alone, so threads
/// change nothing. (Hsu et al. 2024, "Liger Kernel".) Stands for linear, cross_entropy and their three gradients;
/// the pass `fuse` writes it.
struct linear_cross_entropy_forward_backward {
  static constexpr char const* name = "linear_cross_entropy_forward_backward";
  static constexpr unsigned accumulating = 0b101;
  static constexpr unsigned workspace = 0b11000;

  static constexpr inferred infer(operand_types const& in, attributes const&) {
    auto const loss = infer_linear_cross_entropy(in);
    if (loss.reason != why::nothing) return loss;
    return with_logit_workspace(
        loss.and_also(in[0].type, in[0].shape).and_also(accumulator_of(in[0].type), in[1].shape), in);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, attributes const& a) {
    auto result = cost_by_operands(in, out, a);
    auto const weight = static_cast<double>(in[1].shape.elements());
    auto const rows = in[0].shape.rows(), chunk = logit_rows(rows);
    auto const further_chunks = static_cast<double>((rows - 1) / chunk);
    result.flops = 6.0 * static_cast<double>(rows) * weight;
    // Each product of each chunk reads the weight, and each chunk adds to the weight's gradient.
    auto const weight_bytes = static_cast<double>(size_of(in[1].type)) * weight;
    auto const gradient_bytes = static_cast<double>(size_of(out[2].type)) * weight;
    result.bytes_read += weight_bytes + further_chunks * (2 * weight_bytes + gradient_bytes);
    result.bytes_written += further_chunks * gradient_bytes;
    return result;
  }
};

} // namespace constrain::op
