#pragma once

#include "constrain/op/flash_attention/flash_attention.hpp"
#include "constrain/policy/attention.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

enum class mode { training, evaluation };

/// Chooses how attention is done: where it is tiled, a tile of the scores at a time instead of keeping the probabilities.
constexpr program select_attention(program const& p, slot_of::attention const& attention) {
  if (!attention.tiled || !p.failure.ok()) return p;
  static_assert(sizeof(detail::named<op::flash_attention>) > 0);
  program out = p;
  for (auto& n : out.nodes) {
    if (!calls(n, info_of<op::attention>)) continue;
    n.op = &info_of<op::flash_attention>;
    auto const& qkv = p.values[n.inputs[0].value];
    operand_types inputs;
    inputs.push_back({qkv.type, qkv.shape});
    auto const result = n.op->infer(inputs, n.attributes);
    for (int j = 0; j < result.outputs.size(); ++j) out.values[n.outputs[j].value].shape = result.outputs[j].shape;
  }
  return out;
}

/// In evaluation what acts in training alone (dropout) disappears: whoever reads its output reads its input.
constexpr program select(program const& p, mode m) {
  if (m == mode::training || !p.failure.ok()) return p;
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
