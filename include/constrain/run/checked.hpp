#pragma once

#include "constrain/base/error.hpp"
#include "constrain/device/math.hpp"
#include "constrain/program/program.hpp"
#include "constrain/run/arena.hpp"
#include "constrain/run/executor.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The properties of a value that checked mode (`checked_hooks`) needs.
struct checked_value {
  int tagged_as = -1;                 // the value itself; of a view: the value whose slice it is
  axis_list axes;                     // loops over which the value is stacked (one instance per iteration)
  int loop_carried_axis = -1;         // axis of the loop that carries the value along; -1: not loop-carried
  bool persistent = false;            // the value keeps its bytes between runs: not checked
  bool covers_all_iterations = false; // one call writes all iterations, or they are summed: the tag leaves them out
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

/// Checked mode, as executor hooks: every write tags the 64-byte blocks that it covers with the value and the loop
/// iterations, and every read of a value must find the tag of this value. This finds values that are overwritten while
/// still needed, which filling memory with NaN does not always show. The first output of each plan step (kernel call)
/// must be finite. The hooks throw `error`, which names the plan step.
class checked_hooks {
public:
  static constexpr std::int64_t block = 64; // bytes that share one tag

  /// `operands`: of the plan; `values`: by the value's index in the program. The arena and both arrays must outlive
  /// this object.
  [[gnu::noinline, gnu::cold]] checked_hooks(arena const& memory, operand const* operands, checked_value const* values)
      : memory_(memory), operands_(operands), values_(values),
        tags_(static_cast<std::size_t>(memory.size().count() / block + 1)) {}

  /// Tags memory that the host has written, so that any plan step may read it.
  [[gnu::noinline, gnu::cold]] void wrote(host_view const& view) {
    if (view.elements == 0) return;
    auto const end = view.offset + view.elements * size_of(view.type);
    for (auto b = view.offset / block; b * block < end; ++b) tags_[static_cast<std::size_t>(b)] = from_host;
  }

  /// Checks the inputs of a plan step: bounds and tags.
  [[gnu::noinline, gnu::cold]] void before(int index, step const& s, bound_operand const* bound,
                                           loop_state const& loops) {
    for (int k = 0; k < s.inputs; ++k) {
      auto const& o = operands_[s.first_operand + k];
      auto const& value = values_[o.value];
      check_bounds(index, s, o, bound[k]);
      if (value.persistent) continue;
      auto const expected = tag(o, value, loops);
      auto const begin = bound[k].data - memory_.data();
      auto const bytes = reach(o, bound[k]);
      for (auto b = begin / block; b * block < begin + bytes; ++b) {
        auto const found = tags_[static_cast<std::size_t>(b)];
        if (found == expected || found == from_host) continue;
        throw error({"checked mode: step ", index, " (", s.op->name, ") reads value %", o.value,
                     ", but its bytes hold value %", found >> 40,
                     (found >> 40 == static_cast<std::uint64_t>(o.value) ? " of another iteration" : ""),
                     "; this is a bug in a pass: report it with the model"});
      }
    }
  }

  /// Tags the outputs of a plan step, and checks their bounds and that the first output is finite.
  [[gnu::noinline, gnu::cold]] void after(int index, step const& s, bound_operand const* bound,
                                          loop_state const& loops) {
    for (int k = s.inputs; k < s.inputs + s.outputs; ++k) {
      auto const& o = operands_[s.first_operand + k];
      check_bounds(index, s, o, bound[k]);
      auto const begin = bound[k].data - memory_.data();
      auto const bytes = reach(o, bound[k]);
      auto const written = tag(o, values_[o.value], loops);
      for (auto b = begin / block; b * block < begin + bytes; ++b) tags_[static_cast<std::size_t>(b)] = written;
      if (k == s.inputs) check_finite(index, s, o, bound[k]);
    }
  }

private:
  static constexpr std::uint64_t from_host = ~std::uint64_t{0};

  /// The tag of an operand: value index in the upper 24 bits, a hash of the iterations in the lower 40.
  std::uint64_t tag(operand const& o, checked_value const& value, loop_state const& loops) const {
    std::uint64_t iterations = 0;
    auto const mix = [&](std::int64_t index) {
      iterations = (iterations * 0x100000001B3ull ^ static_cast<std::uint64_t>(index + 1)) & 0xFFFFFFFFFFull;
    };
    if (!value.covers_all_iterations)
      for (int axis : value.axes) mix(loops.index[axis]);
    if (value.loop_carried_axis >= 0) mix(o.position + loops.sum(o.position_factors));
    return static_cast<std::uint64_t>(value.tagged_as) << 40 | iterations;
  }

  /// Bytes from the first to the last element of an operand, those between its rows included.
  static std::int64_t reach(operand const& o, bound_operand const& b) {
    auto const features = o.shape.features();
    auto const between = b.row_stride == 0 ? 0 : (b.count / features - 1) * (b.row_stride - features);
    return (b.count + between) * size_of(o.type);
  }

  void check_bounds(int index, step const& s, operand const& o, bound_operand const& b) const {
    auto const begin = b.data - memory_.data();
    if (begin < 0 || begin + reach(o, b) > memory_.size().count())
      throw error({"checked mode: step ", index, " (", s.op->name, ") reaches beyond the arena of ",
                   memory_.size().count(), " bytes; this is a bug in a pass: report it with the model"});
  }

  [[gnu::cold]] void check_finite(int index, step const& s, operand const& o, bound_operand const& b) const {
    if (!is_real(o.type)) return;
    visit_real(o.type, [&]<class real>(real) {
      real elements[512];
      auto const row = b.row_stride == 0 ? b.count : o.shape.features();
      for (std::int64_t from = 0; from < b.count;) {
        auto const n = std::min<std::int64_t>(std::ssize(elements), row - from % row);
        auto const place = from / row * b.row_stride + from % row;
        memory_.read(b.data - memory_.data() + place * size_of(o.type), elements, n * size_of(o.type));
        for (std::int64_t i = 0; i < n; ++i)
          if (!math::finite(arithmetic<real>(elements[i]))) refuse_element(index, s, o, from + i);
        from += n;
      }
    });
  }

  [[noreturn, gnu::noinline, gnu::cold]] static void refuse_element(int index, step const& s, operand const& o,
                                                                    std::int64_t element) {
    throw error({"checked mode: step ", index, " (", s.op->name, ") computes a number that is not finite, element ",
                 element, " of value %", o.value,
                 "; look at its inputs, lower the learning rate or clip the gradient"});
  }

  arena const& memory_;
  operand const* operands_;
  checked_value const* values_;
  std::vector<std::uint64_t> tags_;
};

} // namespace constrain
