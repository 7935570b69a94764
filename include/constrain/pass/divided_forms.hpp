#pragma once

#include "constrain/pass/refusals.hpp"
#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Tracks the values that are divided over the ranks of a tensor group: divided parameters, their copies, gradients and
/// states, and the results of element-wise calls on these.
class divided_values {
public:
  constexpr explicit divided_values(program const& p) : p_(p) {
    for (int v = 0; v < p.values.size(); ++v) {
      divided_[v] = p.is_divided(v);
      weights_[v] = is_parameter(p.values[v].role) || is_compute_copy(p.values[v].role);
    }
  }

  /// Whether node n needs the full tensor of its input k, but has only one rank's range. A call that reads a weight and
  /// writes only activations and scratch (or exchange buffers) counts as a call of a divided layer, which does not need
  /// the full tensor. A call that draws random numbers needs it, even to read only the shape.
  constexpr bool needs_full_tensor(node const& n, int k) const {
    int const value = n.inputs[k].value;
    if (!divided_[value] || n.op->draws_random) return divided_[value];
    if ((n.op->layouts.inputs.unread >> k & 1u) != 0) return false;
    if (by_element(n, k) || has_divided_form(n)) return false;
    bool is_of_layer = weights_[value];
    for (auto const& output : n.outputs) {
      auto const r = p_.values[output.value].role;
      is_of_layer = is_of_layer && (r == role::activation || r == role::workspace || r == role::communication);
    }
    return !is_of_layer;
  }

  /// Whether node n computes a full tensor, but its output j is only one rank's range: random numbers depend on
  /// positions in the full tensor.
  constexpr bool writes_full_tensor(node const& n, int j) const {
    return n.op->draws_random && divided_[n.outputs[j].value];
  }

  /// Whether `use_divided_forms` replaces node n with the divided form of its op.
  constexpr bool has_divided_form(node const& n) const {
    return n.op->has_divided_form && p_.is_divided(n.inputs[0].value);
  }

  /// Records which outputs of node n are divided, and which count as weights.
  constexpr void record(node const& n) {
    bool reads_divided = false, is_weight = n.inputs.size() == 1;
    for (int k = 0; k < n.inputs.size(); ++k) {
      reads_divided = reads_divided || (by_element(n, k) && divided_[n.inputs[k].value]);
      is_weight = is_weight && by_element(n, k) && weights_[n.inputs[k].value];
    }
    for (auto const& output : n.outputs) {
      divided_[output.value] = divided_[output.value] || reads_divided;
      weights_[output.value] = weights_[output.value] || is_weight;
    }
  }

private:
  static constexpr bool by_element(node const& n, int k) { return (n.op->layouts.inputs.elements >> k & 1u) != 0; }

  program const& p_;
  bool divided_[program::maximum_values]{}; // values of which each rank has only a range
  bool weights_[program::maximum_values]{}; // parameters, their copies, and element-wise functions of one of these
};

} // namespace detail

/// Tensor parallelism after differentiation: each call whose input 0 is a divided parameter, or the copy, gradient or
/// state of one, becomes its op's `divided_form`, if the op has one. Element-wise calls work on each rank's range.
/// Refused: other calls that read such a tensor, or the result of an element-wise call on one, and calls that draw
/// random numbers and read or write such a tensor. Not refused: calls without random numbers that read a weight, a copy
/// of a weight, or an element-wise function of only a weight, and write only activations and scratch. These calls count
/// as calls of divided layers, so a policy's pass must not, for example, compute the norm of a weight in this way.
constexpr program use_divided_forms(program const& p) {
  detail::divided_values values(p);
  return rewrite(p, [&](builder& out, node const& n, int) {
    if (n.kind != node_kind::call) return out.program.add_node(n);
    auto const refuse = [&](ref r) {
      out.program.fail(diagnosis_with<refusals::divided_tensor_is_read>(p.values[r.value].line)
                           .with_layouts(n.op->label, layout::divided, layout::replicated));
    };
    for (int k = 0; k < n.inputs.size(); ++k)
      if (values.needs_full_tensor(n, k)) refuse(n.inputs[k]);
    for (int j = 0; j < n.outputs.size(); ++j)
      if (values.writes_full_tensor(n, j)) refuse(n.outputs[j]);
    values.record(n);
    if (values.has_divided_form(n)) n.op->divided_form(out, n);
    else out.program.add_node(n);
  });
}

} // namespace constrain
