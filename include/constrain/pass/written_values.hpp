#pragma once

#include "constrain/program/location.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Tracks which values can be read while the nodes of a program run in order. A write to a value may overwrite other
/// values that share bytes with the written value.
class written_values {
public:
  constexpr explicit written_values(program const& p) : p_(p) {
    for (int v = 0; v < p.values.size(); ++v) {
      auto const& info = p.values[v];
      int full = v;
      while (p.values[full].view) full = p.values[full].view.of.value;
      auto const full_role = p.values[full].role;
      state_[v] = is_persistent(full_role) || full_role == role::input ? state::written : state::unwritten;
      root_[v] = info.view || info.overwritten_by ? root_of(p, {v}).value : v;
      if (root_[v] != v) add_sharing(v), add_sharing(root_[v]);
    }
  }

  /// Whether `value` can be read: nodes have written `value`, views that together cover `value`, or the value of which
  /// `value` is a view, and no node has overwritten `value` since. Inputs and persistent values count as written from
  /// the start.
  constexpr bool is_readable(int value) const {
    auto const& view = p_.values[value].view;
    return is_complete(value) || (view && !is_overwritten(value) && is_readable(view.of.value));
  }
  /// Whether the value itself was written, or readable from the start, and then another value was written over it.
  constexpr bool is_overwritten(int value) const { return state_[value] == state::overwritten; }

  /// Records that a node writes the value.
  constexpr void write(int value) {
    state_[value] = state::written;
    if (!shares_bytes_[value]) return;
    for (int other : sharing_values_) {
      // A loop-carried value has several instances. Another value is written only over an instance that no later node
      // reads.
      if (root_[other] != root_[value] || other == value || p_.values[other].is_loop_carried()) continue;
      if (is_view_of(value, other)) continue;
      if (is_view_of(other, value)) state_[other] = state::written;
      else if (state_[other] == state::written && may_overlap(p_, {other}, {value})) state_[other] = state::overwritten;
    }
  }

private:
  enum class state : unsigned char { unwritten, written, overwritten };

  /// Adds `value` to `sharing_values_`, unless it is already there.
  constexpr void add_sharing(int value) {
    if (!shares_bytes_[value]) sharing_values_.push_back(value);
    shares_bytes_[value] = true;
  }

  /// Whether nodes have written the value, or views that cover it.
  constexpr bool is_complete(int value) const {
    if (state_[value] == state::written) return true;
    std::int64_t elements = 0;
    for (int view_index : sharing_values_)
      if (auto const& v = p_.values[view_index].view; v.of.value == value && is_complete(view_index))
        elements += p_.values[view_index].shape.elements() * (v.axis < 0 ? 1 : p_.axes[v.axis].extent);
    return elements == p_.values[value].shape.elements();
  }

  constexpr bool is_view_of(int v, int viewed) const {
    while (v != viewed && p_.values[v].view) v = p_.values[v].view.of.value;
    return v == viewed;
  }

  program const& p_;
  state state_[program::maximum_values]{};
  int root_[program::maximum_values]{};                       // by index of the value: the value whose buffer holds it
  bool shares_bytes_[program::maximum_values]{};              // by index of the value: whether it is in the next list
  fixed_vector<int, program::maximum_values> sharing_values_; // values that share bytes with other values
};

} // namespace constrain::detail
