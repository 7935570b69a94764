#pragma once

#include "constrain/op/stack/stack.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/partial_sums.hpp"
#include "constrain/pass/written_values.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether the value has an instance for each iteration of a loop that skips iterations without a valid label, and the
/// axis of this loop is not in `loop_axes`.
constexpr bool may_be_skipped(program const& p, value_info const& info, axis_list const& loop_axes) {
  for (int axis : info.axes)
    if (p.axes[axis].rows.per_iteration > 0 && !loop_axes.contains(axis)) return true;
  return false;
}

/// Whether a loop over one of these axes skips iterations without a valid label.
constexpr bool skips_iterations(program const& p, axis_list const& axes) {
  for (int axis : axes)
    if (p.axes[axis].rows.per_iteration > 0) return true;
  return false;
}

/// The error of a call that reads its input k in the layout `actual`; no error if the op accepts this layout.
constexpr diagnosis layout_error(node const& n, int k, layout actual) {
  auto const diagnose = [&](why reason, layout needed) {
    return diagnosis{reason, n.line, n.called_from, 0, n.inputs[k].value}.with_layouts(n.op->label, actual, needed);
  };
  if (k == 0 && n.op->changes_layout())
    return n.op->change.from == actual ? diagnosis() : diagnose(why::wrong_layout, n.op->change.from);
  if ((n.op->layouts.inputs.unread >> k & 1u) != 0) return {};
  if (actual == layout::partial) return diagnose(why::partial_sum_is_read, layout::replicated);
  bool const by_element = (n.op->layouts.inputs.elements >> k & 1u) != 0;
  return actual == layout::flat && !by_element ? diagnose(why::wrong_layout, layout::replicated) : diagnosis();
}

/// Tracks how many instances of each value a call works on.
class instances_per_call {
public:
  constexpr explicit instances_per_call(program const& p) : p_(p) {}

  /// The error of the call `n`, in loops over the axes `open`, if there may be gaps between the instances of `value` on
  /// which `n` works: because an inner axis is open and an outer axis with several iterations is not, or because the
  /// value is not dense and an earlier call works on another number of instances.
  constexpr diagnosis error_of(node const& n, int value, axis_list const& open) {
    while (p_.values[value].view) value = p_.values[value].view.of.value;
    auto const& info = p_.values[value];
    // The pass `slice_views` turns the input of op::stack into a view of the output.
    if (info.axes.empty() || calls(n, info_of<op::stack>)) return {};
    bool all_open = info.axes.size() <= open.size(); // the usual case, without the search of `instances`
    for (int k = 0; all_open && k < info.axes.size(); ++k) all_open = info.axes[k] == open[k];
    auto const instances = all_open ? 1 : p_.instances(info, open);
    auto const error = [&](std::int64_t expected) {
      return diagnosis{why::stack_has_gaps, n.line, n.called_from, expected, instances}.with_layouts(
          n.op->label, layout::replicated, layout::replicated);
    };
    if (!all_open && opens_inner_axis_only(info, open)) return error(1);
    if (is_dense(info.role)) return {};
    if (instances_[value] == 0) instances_[value] = instances;
    return instances_[value] == instances ? diagnosis{} : error(instances_[value]);
  }

private:
  /// Whether an open axis of a value follows one of its axes that is not open and has more than one iteration.
  constexpr bool opens_inner_axis_only(value_info const& info, axis_list const& open) const {
    bool any_closed = false;
    for (int axis : info.axes) {
      bool const is_open = p_.is_open(axis, open);
      if (is_open && any_closed) return true;
      any_closed = any_closed || (!is_open && p_.axes[axis].extent > 1);
    }
    return false;
  }
  program const& p_;
  std::int64_t instances_[program::maximum_values]{}; // by the index of the value; 0: no call has used it
};

} // namespace detail

/// Checks the invariants that every pass must keep:
/// - Every loop has an end, every end has a loop, and loops nest at most `axis_list::capacity` deep.
/// - A value is written before it is read, and no other value is written over it in between.
/// - Every output has the type and shape that its op infers.
/// - If there may be gaps between the instances of a value, all calls work on the same number of its instances. No call
///   is in a loop over an inner axis of a value, but outside of loops over an outer axis with several iterations. Calls
///   to op::stack are exempt from both.
/// - Shards are read only by collectives, by ops that work only on shards, and by ops that work element by element. A
///   value that is not yet reduced over the ranks is read only by a collective that reduces it.
/// - Parameters, optimizer states and other persistent values are written only by `guarded` ops, which change nothing
///   if the gradient norm is not finite, and by collectives that read the results of guarded ops. Exception: any op may
///   write a compute copy, because the copy of an unchanged parameter does not change.
/// - If a loop skips iterations without a valid label, no node outside of the loop reads a value with one instance per
///   iteration, and ranks with different batches do not exchange data in the loop, because their numbers of iterations
///   may differ.
/// Returns the failure that `p` already has, or else the first violation, with the source line of the model's call (0
/// if loops do not nest, or nest too deeply); `why::nothing` if there is neither.
constexpr diagnosis verify(program const& p) {
  if (!p.failure.ok()) return p.failure;
  if (auto const error = check_loops(p); !error.ok()) return error;
  axis_list loop_axes; // axes of the loops around the node
  ref const loss = p.result("loss");
  layout written_as[program::maximum_values]{}; // the layout in which the value's last writer left it
  bool guarded[program::maximum_values]{}; // whether a guarded node, or a collective that reads its result, wrote it
  for (int v = 0; v < p.values.size(); ++v) written_as[v] = p.values[v].layout;
  bool any_skips = false; // whether any loop skips iterations
  for (auto const& axis : p.axes) any_skips = any_skips || axis.rows.per_iteration > 0;
  detail::written_values written(p);
  detail::instances_per_call per_call(p);
  for (auto const& n : p.nodes) {
    if (n.kind == node_kind::loop) loop_axes.push_back(n.axis);
    if (n.kind == node_kind::end) loop_axes.pop_back();
    if (n.kind != node_kind::call) continue;
    if (any_skips && n.op->exchanges && !n.op->same_data && detail::skips_iterations(p, loop_axes))
      return {why::exchange_may_be_skipped, n.line, n.called_from};
    operand_types inputs;
    for (int k = 0; k < n.inputs.size(); ++k) {
      int const value = n.inputs[k].value;
      if (!written.is_readable(value)) {
        auto const reason = written.is_overwritten(value) ? why::overwritten_before_read : why::read_before_written;
        return {reason, n.line, n.called_from, 0, value};
      }
      if (written_as[value] != layout::replicated || n.op->changes_layout())
        if (auto const error = detail::layout_error(n, k, written_as[value]); !error.ok()) return error;
      if (any_skips && detail::may_be_skipped(p, p.values[value], loop_axes))
        return {why::skipped_iteration_is_read, n.line, n.called_from, 0, value};
      if (auto const error = per_call.error_of(n, value, loop_axes); !error.ok()) return error;
      inputs.push_back({p.values[value].type, p.values[value].shape});
    }
    auto const inferred = n.op->infer(inputs, n.attributes);
    if (inferred.reason != why::nothing) return inferred.at(n.line, n.called_from);
    for (int j = 0; j < n.outputs.size(); ++j) {
      auto const& info = p.values[n.outputs[j].value];
      if (auto const error = per_call.error_of(n, n.outputs[j].value, loop_axes); !error.ok()) return error;
      written.write(n.outputs[j].value);
      bool const is_collective = n.op->exchanges || n.op->change.from != n.op->change.to;
      bool const is_guarded = n.op->guarded || (is_collective && guarded[n.inputs[0].value]);
      guarded[n.outputs[j].value] = is_guarded;
      if (is_persistent(info.role) && info.role != role::kept_copy && !is_guarded)
        return {why::unguarded_write, n.line, n.called_from, 0, n.outputs[j].value};
      bool const of_one_rank = n.outputs[j] == loss || (info.role == role::gradient && detail::adds_contribution(n, j));
      written_as[n.outputs[j].value] = n.op->changes_layout() && j == 0 ? n.op->change.to
                                       : p.distributed && of_one_rank   ? layout::partial
                                                                        : info.layout;
      bool const fits = j < inferred.outputs.size() && inferred.outputs[j] == operand_type{info.type, info.shape};
      if (!fits) return {why::shape_differs_from_rule, n.line, n.called_from, info.shape.elements(), j};
    }
  }
  return {};
}

} // namespace constrain
