#pragma once

#include "constrain/program/op_info.hpp"
#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Removes training-only ops (dropout) in evaluation: readers of their output read their input.
constexpr program remove_training_ops(program const& p) {
  if (!p.failure.ok()) return p;
  program out = p;
  out.nodes.count = 0;
  ref instead[program::maximum_values]{};
  auto const resolve = [&](ref r) { return instead[r.value] ? instead[r.value] : r; };
  for (auto n : p.nodes) {
    for (auto& input : n.inputs) input = resolve(input);
    if (n.kind == node_kind::call && n.op->only_in_training) instead[n.outputs[0].value] = n.inputs[0];
    else out.add_node(n);
  }
  for (ref* r : {&out.logits, &out.loss})
    if (*r) *r = resolve(*r);
  return out;
}

} // namespace constrain
