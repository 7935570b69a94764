#pragma once

#include "constrain/program/program.hpp"
#include "constrain/run/arena.hpp"
#include "constrain/run/executor.hpp"

#include <cstdint>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The properties of a value that checked mode (`checked_hooks`) needs. For a view, `axes` to `covers_all_iterations`
/// describe the value whose buffer the view uses, and `scaled` is false.
struct checked_value {
  int tagged_as = -1;                 // index of the value; for a view, index of the value whose buffer the view uses
  axis_list axes;                     // axes along which the value is stacked (one instance per iteration)
  int loop_carried_axis = -1;         // axis of the loop that carries the value; -1: not loop-carried
  bool persistent = false;            // the value keeps its bytes between runs; its tags are not checked
  bool covers_all_iterations = false; // all instances share one tag, for example of a value that `accumulates`
  bool kept_copy = false;             // a compute copy that an update writes: it must be finite, too
  bool scaled = false;                // the loss scale (precision::fp16) multiplies the value; the value may overflow
};

/// The `checked_value` of every value of a program.
template <int count> struct checked_table {
  checked_value values[count == 0 ? 1 : count]{}; // by the value's index in the program
};

namespace detail {

/// The value that owns the buffer of value `v`: `v` itself unless `v` is a view.
constexpr int buffer_owner(program const& p, int v) {
  while (p.values[v].view) v = p.values[v].view.of.value;
  return v;
}

/// Sets `scaled` for the values that are computed from the loss scale; does nothing if the program has none. Does not
/// mark persistent values, because a step whose gradients overflow does not change them.
template <int count> constexpr void mark_scaled(program const& p, checked_table<count>& table) {
  if (!p.loss_scale) return;
  auto const is_scaled = [&](int v) { return v == p.loss_scale.value || table.values[v].scaled; };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto const& n : p.nodes) {
      if (n.kind != node_kind::call) continue;
      bool reads_scaled = false;
      for (auto const& input : n.inputs) reads_scaled = reads_scaled || is_scaled(buffer_owner(p, input.value));
      if (!reads_scaled) continue;
      for (auto const& output : n.outputs) {
        int const v = buffer_owner(p, output.value);
        if (table.values[v].scaled || is_persistent(p.values[v].role)) continue;
        table.values[v].scaled = changed = true;
      }
    }
  }
}

} // namespace detail

namespace detail {

/// Gives one tag to all instances of each value that still has an axis, but is used in loops over the parts of this
/// axis: these loops do not set the index of the axis.
template <int count> constexpr void mark_used_in_parts(program const& p, checked_table<count>& table) {
  axis_list open;
  auto const mark = [&](ref r) {
    auto& owner = table.values[table.values[r.value].tagged_as];
    for (int axis : owner.axes)
      if (!open.contains(axis) && p.is_open(axis, open)) owner.covers_all_iterations = true;
  };
  for (auto const& n : p.nodes) {
    if (n.kind == node_kind::loop) open.push_back(n.axis);
    if (n.kind == node_kind::end) open.pop_back();
    for (auto const& input : n.inputs) mark(input);
    for (auto const& output : n.outputs) mark(output);
  }
  for (auto& value : table.values)
    if (value.tagged_as >= 0) value.covers_all_iterations = table.values[value.tagged_as].covers_all_iterations;
}

} // namespace detail

/// Builds the table of a program with `count` values.
template <int count> constexpr checked_table<count> make_checked_table(program const& p) {
  checked_table<count> out;
  for (int v = 0; v < count; ++v) {
    int const tagged_as = detail::buffer_owner(p, v);
    auto const& info = p.values[tagged_as];
    out.values[v] = {tagged_as,
                     info.axes,
                     info.loop_carried_axis,
                     is_persistent(info.role),
                     info.accumulates || is_compute_copy(info.role),
                     info.role == role::kept_copy};
  }
  detail::mark_scaled(p, out);
  detail::mark_used_in_parts(p, out);
  return out;
}

/// The executor hooks of checked mode. Every write sets the tags of all 64-byte blocks that it touches; a tag
/// identifies the value and the loop iterations. Every read of a value that is not persistent must find the tag of the
/// value, or the tag of a host write. This detects values that are overwritten while still needed; filling memory with
/// NaN does not always reveal them. The first output of each plan step (kernel call), if its dtype is floating-point,
/// and every kept compute copy must be finite. An output that the loss scale of precision::fp16 multiplies is exempt
/// while the loss scale can still fall: if the output overflows, the trainer skips the update and lowers the loss
/// scale. If a check fails, the hook throws an `error` that names the plan step. The tags are those of one run: make a
/// new object for each run.
class checked_hooks {
public:
  static constexpr std::int64_t block = 64; // bytes that share one tag; every buffer begins at a multiple of this

  /// `operands`: the operands of the plan. `values`: the array of the program's `checked_table`. The arena and both
  /// arrays must outlive this object. `may_overflow`: whether values that the loss scale multiplies may be non-finite.
  checked_hooks(arena const& memory, operand const* operands, checked_value const* values, bool may_overflow = false);

  /// Tags memory that the host has written, so that any plan step may read it. Call this before the run. Does nothing
  /// for a view without elements.
  void wrote(host_view const& view);

  /// Checks the inputs of a plan step: bounds and tags. Arguments as for `no_hooks`.
  void before(int index, step const& s, bound_operand const* bound, loop_state const& loops);

  /// Tags the outputs of a plan step. Checks their bounds, and that the first output is finite. Arguments as for
  /// `no_hooks`.
  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops);

private:
  static constexpr std::uint64_t host_tag = ~std::uint64_t{0}; // the tag of memory that the host has written

  /// The tag of an operand: `tagged_as` + 1 of its value in the upper 24 bits, and a hash of the iterations in the
  /// lower 40. `value`: the `checked_value` of the operand. The tag of memory that no call has written is 0.
  std::uint64_t tag(operand const& o, checked_value const& value, loop_state const& loops) const;

  /// Throws `error` if the operand is not completely in the arena.
  void check_bounds(int index, step const& s, operand const& o, bound_operand const& b) const;
  /// Throws `error` if an element of the output is not finite; does nothing for integers.
  void check_finite(int index, step const& s, operand const& o, bound_operand const& b) const;

  arena const& memory_;
  operand const* operands_;
  checked_value const* values_;
  bool may_overflow_;
  std::vector<std::uint64_t> tags_; // of each block of the arena
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/run/checked.ipp"
#endif
