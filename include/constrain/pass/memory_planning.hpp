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

/// Whether no gaps separate the instances of a value, so that one call can work on all instances.
constexpr bool is_dense(value_info const& info) {
  return is_persistent(info.role) || info.role == role::gradient || info.role == role::input ||
         info.role == role::compute_copy;
}

/// Computes the lifetimes and offsets of all values.
class memory_planner {
public:
  constexpr memory_planner(program const& p, std::int64_t reserved, std::int64_t alignment)
      : p_(p), nest_(p), reserved_(reserved), alignment_(alignment) {}

  /// The layout with sizes, strides and lifetimes, but without the offsets of values that may share bytes.
  constexpr memory_layout lifetimes() {
    // g++ 12 can lose the default values of an array whose elements are first written out of order.
    for (int v = 0; v < p_.values.size(); ++v) {
      out_.buffers.push_back({});
      references_[v] = {};
    }
    lay_out_persistent();
    collect_references();
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
  struct reference {
    bool any = false;             // whether any node reads or writes the value
    int home = 0;                 // the innermost loop that contains the `home_of` of every reference
    int first = 0, last = 0;      // first and last node that refer to the value
    int traversal = -1;           // the loop that carries a loop-carried value; -1: none, -2: several
    bool ends_break_ring = false; // whether the instance where the loop starts is used after the loop
  };

  constexpr std::int64_t aligned(std::int64_t bytes) const {
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
  }

  constexpr std::int64_t instance_bytes(value_info const& info) const {
    auto const bytes = info.shape.elements() * size_of(info.type);
    return is_dense(info) ? bytes : aligned(bytes);
  }

  constexpr void lay_out_persistent() {
    // The order is parameters, settings, optimizer states and hyperparameters, so that programs with and without
    // optimizer states have the parameters and settings at the same offsets.
    for (int pass = 0; pass < 4; ++pass)
      for (int v = 0; v < p_.values.size(); ++v) {
        auto const& info = p_.values[v];
        if (!is_persistent(info.role)) continue;
        int const group = is_parameter(info.role)      ? 0
                          : info.role == role::setting ? 1
                          : info.role == role::state   ? 2
                                                       : 3;
        if (group != pass) continue;
        stack(v, nest::root);
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
      if (!references_[v].any || !p_.values[v].per_run) continue;
      stack(v, nest::root);
      auto& mine = out_.buffers[v];
      mine.offset = out_.persistent_end + per_run_bytes_;
      mine.born = -1;
      mine.dies = p_.nodes.size();
      out_.end = mine.offset + mine.size;
      per_run_bytes_ += aligned(mine.size);
    }
  }

  /// Whether `first_fit` sets the value's offset.
  constexpr bool may_share_bytes(int v) const { return references_[v].any && !p_.values[v].per_run; }

  /// The innermost loop around node i that is outside of every loop that accumulates into the value or carries it; the
  /// root for inputs and results.
  constexpr int home_of(ref r, int i) const {
    auto const& info = p_.values[r.value];
    // The host writes inputs before the run and reads results after it.
    if (info.role == role::input || info.role == role::result) return nest::root;
    int home = nest_.parent[i];
    if (!info.accumulates && !info.is_loop_carried()) return home;
    for (int loop = home; loop != nest::root; loop = nest_.parent[loop]) {
      int const axis = p_.nodes[loop].axis;
      bool own = !info.accumulates;
      for (int a : info.axes) own = own || p_.is_part_of(axis, a);
      if (info.is_loop_carried() && p_.is_part_of(axis, info.loop_carried_axis)) own = false;
      if (!own) home = nest_.parent[loop];
    }
    return home;
  }

  /// Adds the reference `r` at node i to the summary of its value.
  constexpr void refer(ref r, int i) {
    if (is_persistent(p_.values[r.value].role)) return;
    auto& known = references_[r.value];
    int const home = home_of(r, i);
    if (!known.any) {
      known.any = true;
      known.home = home;
      known.first = i;
    }
    while (known.home != home && !nest_.contains(known.home, home)) known.home = nest_.parent[known.home];
    known.last = i;
    if (!p_.values[r.value].is_loop_carried()) return;
    if (r.where == at::current || r.where == at::next) {
      int loop = nest_.parent[i];
      int outermost = -1;
      for (; loop != nest::root; loop = nest_.parent[loop])
        if (p_.is_part_of(p_.nodes[loop].axis, p_.values[r.value].loop_carried_axis)) outermost = loop;
      if (known.traversal == -1) known.traversal = outermost;
      else if (known.traversal != outermost) known.traversal = -2;
    } else {
      // A loop starts from one end (initial, or final if the loop is reversed) and leaves its result at the other end.
      // A ring (two instances, used alternately) overwrites the instance at the start. If a node uses this instance
      // again after the loop, all instances are needed.
      bool const entering = known.traversal == -1;
      if (entering) entered_from_[r.value] = r.where;
      else if (r.where == entered_from_[r.value]) known.ends_break_ring = true;
    }
  }

  constexpr void collect_references() {
    for (int i = 0; i < p_.nodes.size(); ++i) {
      for (auto const& r : p_.nodes[i].inputs) refer(root_of(p_, r), i);
      for (auto const& r : p_.nodes[i].outputs) refer(root_of(p_, r), i);
    }
  }

  /// Sets size and strides. The buffer has one instance per iteration of every axis of the value that neither `home`
  /// nor a loop around `home` traverses. A loop-carried value also has n + 1 instances for the n iterations of the axis
  /// that carries it, or two instances that are used alternately (a ring).
  constexpr void stack(int v, int home) {
    auto const& info = p_.values[v];
    auto& s = out_.buffers[v];
    std::int64_t size = instance_bytes(info);
    if (info.is_loop_carried()) {
      auto const& known = references_[v];
      bool const ring = known.traversal >= 0 && !known.ends_break_ring;
      s.carried_stride = size;
      s.carried_instances = ring ? 2 : p_.axes[info.loop_carried_axis].extent + 1;
      size *= s.carried_instances;
    }
    for (int k = info.axes.size() - 1; k >= 0; --k) {
      int const axis = info.axes[k];
      bool bound = false;
      for (int loop = home; loop != nest::root; loop = nest_.parent[loop]) bound = bound || p_.nodes[loop].axis == axis;
      if (bound) continue;
      s.strides.push_back({axis, size});
      size *= p_.axes[axis].extent;
    }
    s.size = size;
  }

  /// Sets size, strides and lifetime of a value that does not persist.
  constexpr void lay_out(int v) {
    auto const& known = references_[v];
    stack(v, known.home);
    auto& s = out_.buffers[v];
    s.born = nest_.child(known.home, known.first);
    int const last = nest_.child(known.home, known.last);
    s.dies = nest_.end[last];
    auto const& info = p_.values[v];
    // The host may read gradients and results after the run, and writes inputs before it.
    if (info.role == role::result || (info.role == role::gradient && !info.ends_with_update)) s.dies = p_.nodes.size();
    if (info.role == role::input) s.born = -1;
  }

  /// The order in which `first_fit` assigns offsets: the largest buffer first, or the longest-lived (of two equally
  /// long-lived ones, the larger). Which order needs less memory depends on the program.
  enum class order { largest, longest_lived };
  /// Whether buffer a comes before buffer b in the order `by`.
  constexpr bool is_before(order by, int a, int b) const {
    auto const &x = out_.buffers[a], &y = out_.buffers[b];
    int const lifetime = x.dies - x.born, other_lifetime = y.dies - y.born;
    if (by == order::longest_lived && lifetime != other_lifetime) return lifetime > other_lifetime;
    return x.size > y.size;
  }

  /// Sets `values` to the values that may share bytes, in the order `by`; values that are equal in this order are
  /// sorted by index. Returns their number. Uses merge sort, because compilers limit the work of a constant expression.
  constexpr int sort(order by, int (&values)[program::maximum_values]) const {
    int count = 0;
    for (int v = 0; v < p_.values.size(); ++v)
      if (may_share_bytes(v)) values[count++] = v;
    int merged[program::maximum_values]{};
    for (int run = 1; run < count; run *= 2) {
      for (int begin = 0; begin < count; begin += 2 * run) {
        int const middle = begin + run < count ? begin + run : count, end = middle + run < count ? middle + run : count;
        int left = begin, right = middle;
        for (int k = begin; k < end; ++k) {
          bool const from_right = left == middle || (right < end && is_before(by, values[right], values[left]));
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

  /// Gives each buffer, in the order `by`, the lowest offset at which the buffer shares no bytes with an earlier buffer
  /// that lives at the same time. Stops once a buffer ends at or beyond `limit`.
  constexpr assignment first_fit(order by, std::int64_t limit) const {
    int values[program::maximum_values]{};
    int const count = sort(by, values);
    struct placed {
      int born, dies;
      std::int64_t begin, end;
    };
    placed all[program::maximum_values]{}; // sorted by `begin`
    assignment found{.end = out_.end};
    auto const first_offset = out_.persistent_end + per_run_bytes_;
    for (int k = 0; k < count && found.end < limit; ++k) {
      auto const& mine = out_.buffers[values[k]];
      int const born = mine.born, dies = mine.dies;
      auto const size = aligned(mine.size);
      auto offset = first_offset;
      for (int other = 0; other < k && all[other].begin < offset + size; ++other)
        if (all[other].end > offset && all[other].dies >= born && dies >= all[other].born) offset = all[other].end;
      int at = k;
      for (; at > 0 && all[at - 1].begin > offset; --at) all[at] = all[at - 1];
      all[at] = {born, dies, offset, offset + size};
      found.offsets[values[k]] = offset;
      found.end = std::max(found.end, offset + mine.size - padding_of(values[k]));
    }
    return found;
  }

  /// A lower bound on `assignment::end` for every order, from the maximum total size of buffers that live at the same
  /// time.
  constexpr std::int64_t least_end() const {
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
    std::int64_t most = 0, now = 0;
    for (int i = 0; i < p_.nodes.size() + 2; ++i) {
      now += change[i];
      most = std::max(most, now);
    }
    return out_.persistent_end + per_run_bytes_ + most - padding;
  }

  /// Sets the offsets of the order that needs less memory, or of `order::largest` if both need the same amount.
  constexpr void assign_offsets() {
    auto found = first_fit(order::largest, std::numeric_limits<std::int64_t>::max());
    if (found.end > least_end())
      if (auto const other = first_fit(order::longest_lived, found.end); other.end < found.end) found = other;
    for (int v = 0; v < p_.values.size(); ++v)
      if (may_share_bytes(v)) out_.buffers[v].offset = found.offsets[v];
    out_.end = found.end;
  }

  program const& p_;
  nest nest_;
  std::int64_t reserved_, alignment_;
  std::int64_t per_run_bytes_ = 0; // of the values that `lay_out_per_run` lays out
  memory_layout out_;
  reference references_[program::maximum_values]{};
  at entered_from_[program::maximum_values]{};
};

} // namespace detail

/// Memory planning: gives every value its bytes in the arena. Let C be the innermost loop that contains all references
/// to a value and is outside of every loop that accumulates into the value or carries it. For inputs and results, C is
/// the whole program. The value needs one instance per iteration of the loops between C and the definition of the
/// value. A loop-carried value also needs n + 1 instances for the n iterations of the axis that carries it, or two
/// instances if they can be used alternately. The value lives from the first to the last child of C that refers to it.
/// A value that the host writes lives from the start of the run, and a value that the host may read lives to the end of
/// the run. This rule decides which values are kept for the backward pass, for a segment of a recomputed loop, or for
/// one iteration only. Offsets are first-fit, in the order that needs less memory: the largest buffer first, or the
/// longest-lived. Values that do not persist come after the persistent values, and after the first `reserved` bytes,
/// which hold the persistent values of all entry programs. A refused program has no buffers.
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
