#pragma once

#include "constrain/program/program.hpp"
#include "constrain/run/arena.hpp"
#include "constrain/run/executor.hpp"

#include <cstdint>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The properties of a value that checked mode (`checked_hooks`) needs.
struct checked_value {
  int tagged_as = -1;                 // index of the value; for a view, index of the value whose buffer the view uses
  axis_list axes;                     // axes along which the value is stacked (one instance per iteration)
  int loop_carried_axis = -1;         // axis of the loop that carries the value; -1: not loop-carried
  bool persistent = false;            // the value keeps its bytes between runs; its tags are not checked
  bool covers_all_iterations = false; // all instances share one tag: one call writes them, or iterations are summed
};

/// The `checked_value` of every value of a program.
template <int count> struct checked_table {
  checked_value values[count == 0 ? 1 : count]{}; // by the value's index in the program
};

/// Builds the table of a program.
template <int count> constexpr checked_table<count> make_checked_table(program const& p) {
  checked_table<count> out;
  for (int v = 0; v < count; ++v) {
    int tagged_as = v;
    while (p.values[tagged_as].view) tagged_as = p.values[tagged_as].view.of.value;
    auto const& info = p.values[tagged_as];
    out.values[v] = {tagged_as, info.axes, info.loop_carried_axis, is_persistent(info.role),
                     info.accumulates || info.role == role::compute_copy};
  }
  return out;
}

/// The executor hooks of checked mode. Every write sets the tags of the 64-byte blocks that it covers; a tag identifies
/// the value and the loop iterations. Every read of a value that is not persistent must find the tag of the value, or
/// the tag of a host write. This detects values that are overwritten while still needed; filling memory with NaN does
/// not always reveal them. The first output of each plan step (kernel call) must be finite if the output's dtype is
/// floating-point. If a check fails, the hook throws an `error` that names the plan step.
class checked_hooks {
public:
  static constexpr std::int64_t block = 64; // bytes that share one tag

  /// `operands`: the operands of the plan. `values`: by the value's index in the program. The arena and both arrays
  /// must outlive this object.
  checked_hooks(arena const& memory, operand const* operands, checked_value const* values);

  /// Tags memory that the host has written, so that any plan step may read it.
  void wrote(host_view const& view);

  /// Checks the inputs of a plan step: bounds and tags.
  void before(int index, step const& s, bound_operand const* bound, loop_state const& loops);

  /// Tags the outputs of a plan step. Checks their bounds, and that the first output is finite.
  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops);

private:
  static constexpr std::uint64_t from_host = ~std::uint64_t{0};

  /// The tag of an operand: the value's index + 1 in the upper 24 bits, and a hash of the iterations in the lower 40.
  /// The tag of memory that no call has written is 0.
  std::uint64_t tag(operand const& o, checked_value const& value, loop_state const& loops) const;

  void check_bounds(int index, step const& s, operand const& o, bound_operand const& b) const;
  void check_finite(int index, step const& s, operand const& o, bound_operand const& b) const;

  arena const& memory_;
  operand const* operands_;
  checked_value const* values_;
  std::vector<std::uint64_t> tags_;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/run/checked.ipp"
#endif
