#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Whether padded rows, which have ignored labels where labels can be ignored, add nothing to the loss. True if every
/// path from the logits, or from labels that cannot be ignored, to the loss leads through output 0 of an op that also
/// reads labels that can be ignored. Assumes that such an op ignores rows with ignored labels. `p`: before any pass.
constexpr bool ignores_padding(program const& p) {
  if (!p.failure.ok()) return true;
  bool labels[program::maximum_values]{}; // labels that can be ignored, and integers computed from them
  bool counts[program::maximum_values]{}; // values to which padded rows add something
  counts[p.result("logits").value] = true;
  for (auto const& port : p.ports)
    if (port.kind == port_kind::label) (port.ignorable ? labels : counts)[port.where.value] = true;
  for (auto const& n : p.nodes) {
    bool reads_labels = false, reads_padding = false;
    for (auto const& input : n.inputs) {
      reads_labels = reads_labels || labels[input.value];
      reads_padding = reads_padding || counts[input.value];
    }
    for (int k = 0; k < n.outputs.size(); ++k) {
      auto const v = n.outputs[k].value;
      if (reads_labels && p.values[v].type == dtype::i32) labels[v] = true;
      else if (reads_padding && (k > 0 || !reads_labels)) counts[v] = true;
    }
  }
  return !counts[p.result("loss").value];
}

} // namespace constrain::detail
