#pragma once

#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Removes training-only ops (dropout) from a program without gradients: readers of the output of such an op read the
/// op's input 0 instead. If an op has a separate form for evaluation (`op_info::in_evaluation`), this form replaces the
/// op.
constexpr program remove_training_ops(program const& p) {
  if (!p.failure.ok()) return p;
  ref replacements[program::maximum_values]{};
  for (auto& r : replacements) r = ref(); // at run time, g++ 12 can leave zeros in the array: references to value 0
  auto const resolve = [&](ref r) { return replacements[r.value] ? replacements[r.value] : r; };
  auto result = rewrite(p, [&](builder& out, node n, int) {
    for (auto& input : n.inputs) input = resolve(input);
    if (n.kind == node_kind::call && n.op->only_in_training) replacements[n.outputs[0].value] = n.inputs[0];
    else {
      if (n.kind == node_kind::call && n.op->has_in_evaluation) n.op = n.op->in_evaluation, n.attributes = {};
      out.program.add_node(n);
    }
  });
  for (auto& port : result.ports)
    if (port.where) port.where = resolve(port.where);
  return result;
}

} // namespace constrain
