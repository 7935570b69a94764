#pragma once

#include "constrain/pass/partial_sums.hpp"
#include "constrain/pass/refusals.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Tells which operands the calls of a program use as shards, and which as full tensors. `value_info::layout` is the
/// layout in which the ranks store a value.
class working_layouts {
public:
  /// For the calls of `p`, and its sums over ranks. `stored`: a program with the values of `p`, in the layouts in which
  /// the ranks store them. `stored` and `sums` must outlive this object.
  constexpr working_layouts(program const& p, program const& stored, partial_sums const& sums)
      : p_(stored), sums_(sums) {
    find_local_values(p);
  }

  /// Whether ranks store the value in shards.
  constexpr bool is_flat(int value) const { return p_.values[value].layout == layout::flat; }

  /// Whether node n works on shards: element by element, with an operand that is stored in shards, without an operand
  /// that differs between ranks, and without contributing to a sum over ranks.
  constexpr bool works_on_shards(node const& n) const {
    if (!n.op->layouts.by_elements()) return false;
    bool has_flat_operand = false;
    for (int k = 0; k < n.inputs.size(); ++k) {
      if (by_element(n, k) && is_local_[n.inputs[k].value]) return false;
      has_flat_operand = has_flat_operand || (by_element(n, k) && is_flat(n.inputs[k].value));
    }
    for (int j = 0; j < n.outputs.size(); ++j) {
      if (sums_.contains(n.outputs[j]) && sums_.contributes(n, j)) return false;
      has_flat_operand = has_flat_operand || is_flat(n.outputs[j].value);
    }
    return has_flat_operand;
  }
  /// Whether this input of node n has the pattern `*` (program/layout.hpp): element i of an output needs only element i
  /// of the input or, if the input is a block-wise optimizer state, the element for the block that contains i.
  static constexpr bool by_element(node const& n, int input) {
    return (n.op->layouts.inputs.elements >> input & 1u) != 0;
  }

  /// Whether input k of node n is stored in shards, but read as a full tensor.
  constexpr bool reads_in_full(node const& n, int k) const {
    if (!is_flat(n.inputs[k].value)) return false;
    return !(k == 0 && n.op->has_flat_form) && !(by_element(n, k) && works_on_shards(n));
  }

  /// Whether output j of node n is stored in shards, but computed as a full tensor, of which each rank keeps its shard.
  constexpr bool writes_in_full(node const& n, int j) const {
    if (!is_flat(n.outputs[j].value) || works_on_shards(n)) return false;
    return !sums_.contains(n.outputs[j]) || !sums_.contributes(n, j);
  }

  /// Whether node n needs the old elements of its output j.
  static constexpr bool updates(node const& n, int j) {
    return n.inputs.contains(n.outputs[j]) || n.op->guarded || (n.op->accumulating >> j & 1u) != 0;
  }

  /// Whether node n can work on the shards of all tensors of a stack in one call.
  constexpr bool works_on_stacks(node const& n) const {
    auto const is_dense = [&](int value) { return is_flat(value) && !p_.values[value].view; };
    bool all_dense = true;
    for (int k = 0; k < n.inputs.size(); ++k)
      all_dense = all_dense && (!by_element(n, k) || is_dense(n.inputs[k].value));
    for (auto const& output : n.outputs) all_dense = all_dense && is_dense(output.value);
    return all_dense;
  }

  /// Returns an error if node n works on shards and an operand with the pattern `*` has neither as many elements as
  /// output 0 nor, if the operand is a block-wise optimizer state, one element per block. A rank's shards of such an
  /// operand and of output 0 would hold different ranges. Otherwise, returns no error.
  constexpr diagnosis check_elements(node const& n) const {
    if (!works_on_shards(n)) return {};
    auto const expected = p_.values[n.outputs[0].value].shape_in_full().elements();
    diagnosis failure;
    auto const check = [&](ref r) {
      auto const& info = p_.values[r.value];
      auto const actual = info.shape_in_full().elements();
      bool const pairs = actual == expected || (info.block > 1 && actual == (expected + info.block - 1) / info.block);
      if (!pairs)
        failure = diagnosis_with<refusals::elements_do_not_pair>(n.line, n.called_from, expected, actual)
                      .with_layouts(n.op->label, info.layout, layout::flat);
    };
    for (int k = 0; k < n.inputs.size(); ++k)
      if (by_element(n, k)) check(n.inputs[k]);
    for (auto const& output : n.outputs) check(output);
    return failure;
  }

private:
  /// Sets `is_local_`. A loop-carried value is read before the node that writes it, so one sweep may not be enough.
  constexpr void find_local_values(program const& p) {
    for (int v = 0; v < p.values.size(); ++v) is_local_[v] = p.values[v].role == role::input && !p.values[v].per_run;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto const& n : p.nodes) {
        // The result of an exchange in a tensor group also differs between ranks that train on different batches.
        if (n.kind != node_kind::call || (n.op->exchanges && !n.op->same_data)) continue;
        bool differs = n.op->draws_random;
        for (auto const& input : n.inputs) differs = differs || is_local_[input.value];
        if (!differs) continue;
        for (auto const& output : n.outputs) {
          bool const is_activation = p.values[output.value].role == role::activation;
          if (is_activation && !is_local_[output.value]) changed = is_local_[output.value] = true;
        }
      }
    }
  }

  program const& p_;
  partial_sums const& sums_;
  // Whether the value differs between ranks: an input, a random activation, or an activation that depends on one of
  // these.
  bool is_local_[program::maximum_values]{};
};

} // namespace constrain::detail
