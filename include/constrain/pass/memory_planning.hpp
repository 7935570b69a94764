#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/memory_layout.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/program/location.hpp"
#include "constrain/program/op_info.hpp"

#include <algorithm>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Computes the lifetimes and offsets of all values.
class memory_planner {
public:
  /// `reserved`, `alignment`: as in `plan_memory`. `p` must outlive this object.
  constexpr memory_planner(program const& p, std::int64_t reserved, std::int64_t alignment)
      : p_(p), nest_(p), reserved_(reserved), alignment_(alignment) {}

  /// Finds sizes, strides and lifetimes, but not the offsets of values that may share bytes. Returns the layout so far.
  constexpr memory_layout const& lifetimes() {
    // g++ 12 can lose the default values of an array whose elements are first written out of order.
    for (int v = 0; v < p_.values.size(); ++v) {
      out_.buffers.push_back({});
      usages_[v] = {};
    }
    lay_out_persistent();
    collect_usages();
    lay_out_per_run();
    for (int v = 0; v < p_.values.size(); ++v)
      if (may_share_bytes(v)) lay_out(v);
    return out_;
  }
  /// The complete layout.
  constexpr memory_layout run() {
    lifetimes();
    assign_offsets();
    return out_;
  }

private:
  /// A summary of all references to one value that does not persist.
  struct value_usage {
    bool is_used = false;             // whether any node reads or writes the value
    int scope = 0;                    // the innermost loop that is or contains the `scope_of` of every reference
    int first = 0, last = 0;          // first and last node that refer to the value
    int carrying_loop = -1;           // the loop that carries a loop-carried value; -1: none, -2: several
    bool needs_all_instances = false; // whether a ring would overwrite an instance that is used later
  };

  constexpr std::int64_t aligned(std::int64_t bytes) const {
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
  }

  constexpr std::int64_t instance_bytes(value_info const& info) const {
    auto const bytes = info.shape.elements() * size_of(info.type);
    return is_dense(info.role) ? bytes : aligned(bytes);
  }

  /// The position of the values with this role in the order of persistent values; -1: they do not persist.
  static constexpr int persistent_group(role r) {
    if (is_parameter(r)) return 0;
    return r == role::setting ? 1 : r == role::state ? 2 : r == role::hyperparameters ? 3 : is_persistent(r) ? 4 : -1;
  }

  constexpr void lay_out_persistent() {
    // The order is parameters, settings, optimizer states, hyperparameters and kept compute copies, so that programs
    // with and without optimizer states have the parameters and settings at the same offsets.
    int const count = p_.values.size();
    int groups[program::maximum_values]{};
    for (int v = 0; v < count; ++v) groups[v] = persistent_group(p_.values[v].role);
    for (int group = 0; group < 5; ++group)
      for (int v = 0; v < count; ++v) {
        if (groups[v] != group) continue;
        set_size_and_strides(v, nest::root);
        out_.buffers[v].offset = out_.persistent_end;
        out_.buffers[v].dies = p_.nodes.size();
        out_.persistent_end += aligned(out_.buffers[v].size);
      }
    if (out_.persistent_end < reserved_) out_.persistent_end = reserved_;
    out_.end = out_.persistent_end;
  }

  /// Lays out the `per_run` values before all other values that do not persist. The host writes `per_run` values once
  /// for all micro-batches. They share bytes with no other value, so that their buffers do not depend on the number of
  /// micro-batches.
  constexpr void lay_out_per_run() {
    for (int v = 0; v < p_.values.size(); ++v) {
      if (!usages_[v].is_used || !p_.values[v].per_run) continue;
      set_size_and_strides(v, nest::root);
      auto& b = out_.buffers[v];
      b.offset = out_.persistent_end + per_run_bytes_;
      b.born = -1;
      b.dies = p_.nodes.size();
      out_.end = b.offset + b.size;
      per_run_bytes_ += aligned(b.size);
    }
  }

  /// Whether `first_fit` sets the value's offset.
  constexpr bool may_share_bytes(int v) const { return usages_[v].is_used && !p_.values[v].per_run; }

  /// The innermost loop around node i that is outside of every loop that accumulates into the value or carries it; the
  /// root for inputs and results.
  constexpr int scope_of(ref r, int i) const {
    auto const& info = p_.values[r.value];
    // The host writes inputs before the run and reads results after it.
    if (info.role == role::input || info.role == role::result) return nest::root;
    int scope = nest_.parent[i];
    if (!info.accumulates && !info.is_loop_carried()) return scope;
    for (int loop = scope; loop != nest::root; loop = nest_.parent[loop]) {
      int const axis = p_.nodes[loop].axis;
      bool is_separate = !info.accumulates;
      for (int a : info.axes) is_separate = is_separate || p_.is_part_of(axis, a);
      if (info.is_loop_carried() && p_.is_part_of(axis, info.loop_carried_axis)) is_separate = false;
      if (!is_separate) scope = nest_.parent[loop];
    }
    return scope;
  }

  /// Adds the reference `r` at node i to the summary of its value.
  constexpr void add_reference(ref r, int i) {
    if (is_persistent(p_.values[r.value].role)) return;
    auto& usage = usages_[r.value];
    int const scope = scope_of(r, i);
    if (!usage.is_used) {
      usage.is_used = true;
      usage.scope = scope;
      usage.first = i;
    }
    while (usage.scope != scope && !nest_.contains(usage.scope, scope)) usage.scope = nest_.parent[usage.scope];
    usage.last = i;
    if (!p_.values[r.value].is_loop_carried()) return;
    int outermost = -1; // of the loops around the node that carry the value
    for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop])
      if (p_.is_part_of(p_.nodes[loop].axis, p_.values[r.value].loop_carried_axis)) outermost = loop;
    if (r.where == at::current || r.where == at::next) {
      if (usage.carrying_loop == -1) usage.carrying_loop = outermost;
      else if (usage.carrying_loop != outermost) usage.carrying_loop = -2;
    } else if (outermost != -1) {
      usage.needs_all_instances = true; // a view (pass/slice_views.hpp) of `initial` or `final` is used in the loop
    } else {
      // A loop starts from one end (initial, or final if the loop is reversed) and leaves its result at the other end.
      // A ring (two instances, used alternately) overwrites the instance that the loop started from. If a node uses
      // this instance again after the loop, all instances are needed.
      bool const enters_loop = usage.carrying_loop == -1;
      if (enters_loop) entered_from_[r.value] = r.where;
      else if (r.where == entered_from_[r.value]) usage.needs_all_instances = true;
    }
  }

  constexpr void collect_usages() {
    for (int i = 0; i < p_.nodes.size(); ++i) {
      for (auto const& r : p_.nodes[i].inputs) add_reference(root_of(p_, r), i);
      for (auto const& r : p_.nodes[i].outputs) add_reference(root_of(p_, r), i);
    }
  }

  /// Sets size and strides. The buffer has one instance per iteration of every axis of the value that neither `scope`
  /// nor a loop around `scope` traverses. A loop-carried value has n + 1 instances for the n iterations of its
  /// `loop_carried_axis`, or two that are used alternately (a ring).
  constexpr void set_size_and_strides(int v, int scope) {
    auto const& info = p_.values[v];
    auto& b = out_.buffers[v];
    std::int64_t size = instance_bytes(info);
    if (info.is_loop_carried()) {
      auto const& usage = usages_[v];
      bool const ring = usage.carrying_loop >= 0 && !usage.needs_all_instances;
      b.carried_stride = size;
      b.carried_instances = ring ? 2 : p_.axes[info.loop_carried_axis].extent + 1;
      size *= b.carried_instances;
    }
    for (int k = info.axes.size() - 1; k >= 0; --k) {
      int const axis = info.axes[k];
      bool bound = false;
      for (int loop = scope; loop != nest::root; loop = nest_.parent[loop])
        bound = bound || p_.nodes[loop].axis == axis;
      if (bound) continue;
      b.strides.push_back({axis, size});
      size *= p_.axes[axis].extent;
    }
    b.size = size;
  }

  /// Sets size, strides and lifetime of a value that does not persist.
  constexpr void lay_out(int v) {
    auto const& usage = usages_[v];
    set_size_and_strides(v, usage.scope);
    auto& b = out_.buffers[v];
    b.born = nest_.child(usage.scope, usage.first);
    int const last = nest_.child(usage.scope, usage.last);
    b.dies = nest_.end[last];
    auto const& info = p_.values[v];
    // The host may read gradients and results after the run, and writes inputs before it.
    if (info.role == role::result || (info.role == role::gradient && !info.ends_with_update)) b.dies = p_.nodes.size();
    if (info.role == role::input) b.born = -1;
  }

  /// The order in which `first_fit` assigns offsets: the largest buffer first, or the longest-lived (of two equally
  /// long-lived ones, the larger). Which order needs less memory depends on the program.
  enum class order { largest, longest_lived };
  /// Whether buffer a comes before buffer b in the order `criterion`.
  constexpr bool is_before(order criterion, int a, int b) const {
    auto const &x = out_.buffers[a], &y = out_.buffers[b];
    int const lifetime = x.dies - x.born, other_lifetime = y.dies - y.born;
    if (criterion == order::longest_lived && lifetime != other_lifetime) return lifetime > other_lifetime;
    return x.size > y.size;
  }

  /// Sets `values` to the values that may share bytes, in the order `criterion`; values that are equal in this order
  /// are sorted by index. Returns their number. Uses merge sort, because compilers limit the work of a constant
  /// expression.
  constexpr int sort(order criterion, int (&values)[program::maximum_values]) const {
    int count = 0;
    for (int v = 0; v < p_.values.size(); ++v)
      if (may_share_bytes(v)) values[count++] = v;
    int merged[program::maximum_values]{};
    for (int run = 1; run < count; run *= 2) {
      for (int begin = 0; begin < count; begin += 2 * run) {
        int const middle = begin + run < count ? begin + run : count, end = middle + run < count ? middle + run : count;
        int left = begin, right = middle;
        for (int k = begin; k < end; ++k) {
          bool const from_right = left == middle || (right < end && is_before(criterion, values[right], values[left]));
          merged[k] = from_right ? values[right++] : values[left++];
        }
      }
      for (int k = 0; k < count; ++k) values[k] = merged[k];
    }
    return count;
  }

  /// Bytes of padding after the elements of one instance of the value.
  constexpr std::int64_t padding_of(int v) const {
    auto const& info = p_.values[v];
    return instance_bytes(info) - info.shape.elements() * size_of(info.type);
  }

  /// Offsets of the values that may share bytes, and the number of bytes that the program needs with these offsets.
  struct assignment {
    std::int64_t offsets[program::maximum_values]{}; // by index of the value
    std::int64_t end = 0;
  };

  /// Gives each buffer, in the order `criterion`, the lowest offset at which the buffer shares no bytes with an earlier
  /// buffer that lives at the same time. Stops when a buffer ends at or beyond `limit`.
  constexpr assignment first_fit(order criterion, std::int64_t limit) const {
    int values[program::maximum_values]{};
    int const count = sort(criterion, values);
    struct live_range {
      int born = 0, dies = 0;
      std::int64_t begin = 0, end = 0;
      int next = 0; // index of the next range in the order of `begin`; 0: none
    };
    live_range assigned[program::maximum_values + 1]{}; // a linked list in the order of `begin`; element 0 is its head
    assigned[0] = {};
    assignment result{.end = out_.end};
    auto const first_offset = out_.persistent_end + per_run_bytes_;
    for (int k = 0; k < count && result.end < limit; ++k) {
      auto const& b = out_.buffers[values[k]];
      int const born = b.born, dies = b.dies;
      auto const size = aligned(b.size);
      auto offset = first_offset;
      int previous = 0; // the last range with a `begin` of at most `offset`
      for (int j = assigned[0].next; j != 0 && assigned[j].begin < offset + size; j = assigned[j].next)
        if (assigned[j].end > offset && assigned[j].dies >= born && dies >= assigned[j].born)
          offset = assigned[previous = j].end;
      for (int j = assigned[previous].next; j != 0 && assigned[j].begin <= offset; j = assigned[j].next) previous = j;
      assigned[k + 1] = {born, dies, offset, offset + size, assigned[previous].next};
      assigned[previous].next = k + 1;
      result.offsets[values[k]] = offset;
      result.end = std::max(result.end, offset + b.size - padding_of(values[k]));
    }
    return result;
  }

  /// A lower bound on `assignment::end` for every order, from the maximum total size of buffers that live at the same
  /// time.
  constexpr std::int64_t minimum_end() const {
    std::int64_t change[program::maximum_nodes + 3]{}; // by node + 1: bytes first needed there, minus bytes freed
    std::int64_t padding = 0;
    for (int v = 0; v < p_.values.size(); ++v) {
      if (!may_share_bytes(v)) continue;
      auto const& b = out_.buffers[v];
      auto const size = aligned(b.size);
      change[b.born + 1] += size;
      change[b.dies + 2] -= size;
      padding = std::max(padding, size - b.size + padding_of(v));
    }
    std::int64_t peak = 0, live = 0;
    for (int i = 0; i < p_.nodes.size() + 2; ++i) {
      live += change[i];
      peak = std::max(peak, live);
    }
    return out_.persistent_end + per_run_bytes_ + peak - padding;
  }

  /// Sets the offsets of the order that needs less memory, or of `order::largest` if both need the same amount.
  constexpr void assign_offsets() {
    auto best = first_fit(order::largest, std::numeric_limits<std::int64_t>::max());
    if (best.end > minimum_end())
      if (auto const candidate = first_fit(order::longest_lived, best.end); candidate.end < best.end) best = candidate;
    for (int v = 0; v < p_.values.size(); ++v)
      if (may_share_bytes(v)) out_.buffers[v].offset = best.offsets[v];
    out_.end = best.end;
  }

  program const& p_;
  nest nest_;
  std::int64_t reserved_, alignment_;
  std::int64_t per_run_bytes_ = 0; // of the values that `lay_out_per_run` lays out
  memory_layout out_;
  value_usage usages_[program::maximum_values]{};
  at entered_from_[program::maximum_values]{};
};

} // namespace detail

/// Memory planning: gives every value that needs a buffer its bytes in the arena. Let C be the innermost loop that
/// contains all references to a value and is outside of every loop that accumulates into the value or carries it. For
/// inputs and results, C is the whole program. The buffer has one instance per iteration of every axis of the value
/// (`value_info::axes`) that neither C nor a loop around C traverses. A loop-carried value has n + 1 instances for the
/// n iterations of its `loop_carried_axis`, or two if they can be used alternately. A value lives from the first to the
/// last child of C that refers to the value. A value that the host writes lives from the start of the run, and a value
/// that the host may read lives to the end of the run. These rules decide which values are kept for the backward pass,
/// for a segment of a recomputed loop, or for one iteration only. Offsets are first-fit, in the order that needs less
/// memory: the largest buffer first, or the longest-lived. Values that do not persist come after the persistent values,
/// and after the first `reserved` bytes, which hold the persistent values of all entry programs. A refused program has
/// no buffers.
///
/// `alignment`: the alignment of the device's buffers, in bytes. Every buffer begins at a multiple of `alignment`, and
/// so does every instance, except the instances of persistent values, gradients, compute copies and inputs. One call
/// may work on all instances of one of these values, so there are no gaps between them: an instance begins at a
/// multiple of its size from the beginning of the buffer.
constexpr memory_layout plan_memory(program const& p, std::int64_t reserved = 0,
                                    std::int64_t alignment = cpu::alignment) {
  if (!p.failure.ok()) return {};
  return detail::memory_planner(p, reserved, alignment).run();
}

} // namespace constrain
