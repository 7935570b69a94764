#pragma once

#include "constrain/op/flash_attention/flash_attention.hpp"
#include "constrain/pass/missing_kernels.hpp"
#include "constrain/policy/attention.hpp"
#include "constrain/program/extents.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The ops of flash attention without a kernel for `source::device`.
template <class source> constexpr op_set missing_for_attention() {
  return missing_of<source, op::flash_attention, op::flash_attention_gradient>();
}

} // namespace detail

/// Chooses the attention algorithm. With `attention.tiled`, calls to op::attention become calls to op::flash_attention
/// (Dao et al. 2022), which keeps one value per query and head for the backward pass instead of the probabilities.
/// `missing`: the ops without a kernel. With `attention.only_with_kernels`, the algorithm does not change if flash
/// attention or its gradient is one of these ops. Refused: a value with more than `maximum_elements` elements over all
/// iterations.
constexpr program select_attention(program const& p, slot_of::attention const& attention, op_set const& missing = {}) {
  bool const has_kernels =
      !missing.contains(info_of<op::flash_attention>) && !missing.contains(info_of<op::flash_attention_gradient>);
  bool const is_tiled = attention.tiled && (!attention.only_with_kernels || has_kernels);
  program out = p;
  if (!p.failure.ok()) return out;
  for (auto& n : out.nodes) {
    if (is_tiled && calls(n, info_of<op::attention>)) {
      n.op = &info_of<op::flash_attention>;
      operand_types inputs;
      for (auto const& input : n.inputs) inputs.push_back({p.values[input.value].type, p.values[input.value].shape});
      auto const result = n.op->infer(inputs, n.attributes);
      for (int j = 0; j < result.outputs.size(); ++j) out.values[n.outputs[j].value].shape = result.outputs[j].shape;
    }
    for (auto const& output : n.outputs) {
      auto failure = check_extents(out, out.values[output.value]);
      failure.called_from = n.called_from;
      if (!failure.ok()) out.fail(failure);
    }
  }
  return out;
}

} // namespace constrain
