#pragma once

#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/constant/constant.hpp"
#include "constrain/op/linear_cross_entropy/linear_cross_entropy.hpp"
#include "constrain/pass/fuse/uses.hpp"
#include "constrain/pass/missing_kernels.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The nodes from the matmul of the head (the linear layer that computes the logits) to its gradients; -1: not in the
/// program.
struct logits_of_loss {
  int matmul = -1;          // linear, without bias
  int loss = -1;            // cross_entropy
  int correct = -1;         // correct_predictions
  int loss_gradient = -1;   // cross_entropy_gradient
  int input_gradient = -1;  // linear_input_gradient
  int weight_gradient = -1; // linear_weight_gradient
};

/// Whether the nodes are linear without bias -> cross_entropy [-> correct_predictions] in a program without gradients,
/// and no other node reads the logits.
constexpr bool matches_evaluation(program const& p, logits_of_loss const& m) {
  auto const& loss = p.nodes[m.loss];
  if (m.loss_gradient >= 0 || !read_by_only(p, loss.inputs[0], {m.loss, m.correct})) return false;
  if (!read_by_only(p, loss.outputs[1], {})) return false;
  return m.correct < 0 || (in_same_iteration(p, m.loss, m.correct) && p.nodes[m.correct].inputs[1] == loss.inputs[1]);
}

/// Whether the nodes are linear without bias -> cross_entropy -> its gradient -> the gradients of the linear layer's
/// input and weight, with a constant or the loss scale as the gradient of the loss, and no other node reads the logits
/// or their gradient.
constexpr bool matches_training(program const& p, logits_of_loss const& m) {
  if (m.correct >= 0 || m.loss_gradient < 0 || m.input_gradient < 0 || m.weight_gradient < 0) return false;
  auto const &matmul = p.nodes[m.matmul], &loss = p.nodes[m.loss], &loss_gradient = p.nodes[m.loss_gradient];
  auto const &input_gradient = p.nodes[m.input_gradient], &weight_gradient = p.nodes[m.weight_gradient];
  for (int i : {m.loss_gradient, m.input_gradient, m.weight_gradient})
    if (!in_same_iteration(p, m.loss, i)) return false;
  bool const same_operands = loss_gradient.inputs[2] == loss.inputs[1] && loss_gradient.inputs[3] == loss.outputs[1] &&
                             loss_gradient.inputs[4] == loss.inputs[2] &&
                             weight_gradient.inputs[1] == matmul.inputs[0] &&
                             input_gradient.inputs[1] == matmul.inputs[1];
  bool const no_other_reader = read_by_only(p, loss.inputs[0], {m.loss, m.loss_gradient}) &&
                               read_by_only(p, loss.outputs[1], {m.loss_gradient}) &&
                               read_by_only(p, loss_gradient.outputs[0], {m.input_gradient, m.weight_gradient});
  // The fused node writes the gradient of the weight at the position of the loss, so no node in between may read or
  // write this gradient.
  return same_operands && no_other_reader &&
         !touched_between(p, weight_gradient.outputs[0], m.loss, m.weight_gradient) &&
         (loss_gradient.inputs[0] == p.loss_scale ||
          is_call(p, writer_of(p, loss_gradient.inputs[0]), info_of<op::constant_like>));
}

/// Fuses the head's matmul, the loss at node i and the nodes that read the logits or their gradient into one node,
/// which stores only some rows of logits at a time (op::logit_rows), if no other node reads the logits and the
/// fused op is not `avoided`. Returns whether the pattern matched.
constexpr bool fuse_linear_cross_entropy(program& p, int i, std::int64_t smallest_logits,
                                         missing_kernels const& avoided) {
  if (!is_call(p, i, info_of<op::cross_entropy>)) return false;
  auto const logits = p.nodes[i].inputs[0];
  auto const& stored = p.values[logits.value];
  if (stored.shape.elements() * size_of(stored.type) < smallest_logits) return false;
  logits_of_loss m{.matmul = writer_of(p, logits), .loss = i};
  bool const plain = is_call(p, m.matmul, info_of<op::linear>) && p.nodes[m.matmul].inputs.size() == 2;
  if (!plain || !in_same_iteration(p, m.matmul, i)) return false;
  m.correct = reader_of(p, logits, info_of<op::correct_predictions>, 0);
  m.loss_gradient = reader_of(p, logits, info_of<op::cross_entropy_gradient>, 1);
  if (m.loss_gradient >= 0) {
    m.input_gradient = reader_of(p, p.nodes[m.loss_gradient].outputs[0], info_of<op::linear_input_gradient>, 0);
    m.weight_gradient = reader_of(p, p.nodes[m.loss_gradient].outputs[0], info_of<op::linear_weight_gradient>, 0);
  }
  bool const training = matches_training(p, m);
  if (!training && !matches_evaluation(p, m)) return false;
  auto const& op = training ? info_of<op::linear_cross_entropy_forward_backward> : info_of<op::linear_cross_entropy>;
  if (avoided.contain(op)) return false;

  node fused;
  auto const& loss = p.nodes[m.loss];
  fused.line = p.nodes[m.matmul].line;
  fused.called_from = loss.called_from;
  fused.inputs.push_back(p.nodes[m.matmul].inputs[0]);
  fused.inputs.push_back(p.nodes[m.matmul].inputs[1]);
  fused.inputs.push_back(loss.inputs[1]);
  fused.inputs.push_back(loss.inputs[2]);
  fused.outputs.push_back(loss.outputs[0]);
  if (training) {
    if (p.loss_scale) fused.inputs.push_back(p.loss_scale);
    else {
      auto const& constant = p.nodes[writer_of(p, p.nodes[m.loss_gradient].inputs[0])];
      auto const loss_gradient = unpack<op::constant_like::options>(constant.attributes).value;
      fused.attributes = pack(op::linear_cross_entropy_forward_backward::options{.loss_gradient = loss_gradient});
    }
    fused.outputs.push_back(p.nodes[m.input_gradient].outputs[0]);
    fused.outputs.push_back(p.nodes[m.weight_gradient].outputs[0]);
  } else if (m.correct >= 0) {
    fused.outputs.push_back(p.nodes[m.correct].outputs[0]);
  }

  fuse_at(p, i, op, fused, {m.matmul, m.correct, m.loss_gradient, m.input_gradient, m.weight_gradient});
  p = dead_code_elimination(p);
  return true;
}

} // namespace constrain::detail
