#pragma once

#include "constrain/pass/memory_planning.hpp"
#include "constrain/pass/rematerialize.hpp"
#include "constrain/pass/slice_views.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Estimates the cost of dropping forward nodes (rematerialize.hpp), and the memory that the resulting program needs,
/// without making this program or its memory plan. A choice is a mask with one bit per group of droppable nodes; the
/// bit of a dropped group is 1. Each group is one node and its views if there are at most 64 such nodes, views
/// included. Otherwise, nodes that call the same op and have the same cost and bytes are one group, with their views. A
/// view is a droppable slice or reshape that becomes a view of a droppable node's result; it has no cost and no bytes.
/// Other slices and reshapes that become views of their input are kept, and count as if they had bytes of their own.
///
/// The estimate accounts for the lifetimes of all values and for ops that overwrite an input. It ignores fusion and
/// gaps between buffers.
class recomputation_estimate {
public:
  // maximum number of groups; nodes that need a further group join the last one
  static constexpr int maximum_groups = 64;

  /// The estimate of a choice.
  struct result {
    std::uint64_t choice = 0; // an equivalent choice, which also drops all groups that the backward pass does not need
    double cost = 0;          // of the recomputation, as `rematerialization::cost_of` counts it
    std::int64_t bytes = 0;   // maximum, over time, of the bytes of all values that do not persist
  };

  /// Prepares estimates for `p`, the program before activation checkpointing.
  constexpr explicit recomputation_estimate(program const& p) : nest_(p) {
    detail::rematerialization const forward(p);
    find_items(p, forward);
    find_readers(p, forward.forward_nodes());
    find_segments(p);
  }

  /// The number of groups.
  constexpr int size() const { return groups_; }
  /// The choice that drops every group.
  constexpr std::uint64_t all() const { return groups_ == 0 ? 0 : ~std::uint64_t{0} >> (maximum_groups - groups_); }
  /// The nodes of the groups in `choice`.
  constexpr node_set nodes(std::uint64_t choice) const {
    node_set out;
    for (auto const& t : items_)
      if (t.is_in(choice)) out.add(t.node);
    return out;
  }
  /// The approximate number of operations that the compiler evaluates for a call to `of`.
  constexpr int steps() const { return 40 * items_.size() + 9 * segments_; }

  /// The estimate of a choice. If the cost reaches `cost_limit`, the function stops early: the result's `cost` is at
  /// least `cost_limit`, but may be too small, and its `choice` and `bytes` have no meaning.
  constexpr result of(std::uint64_t choice, double cost_limit = std::numeric_limits<double>::infinity()) const {
    result out{.choice = all()};
    backward_reads reads[maximum_items];   // the reads of each item; clones count as readers
    std::int64_t change[maximum_segments]; // by segment: its bytes minus the bytes of the segment before
    for (int s = 0; s < segments_; ++s) change[s] = 0;
    for (int k = 0; k < items_.size(); ++k) reads[k] = items_[k].reads;
    auto const add = [&](lifetime life, std::int64_t bytes) {
      change[segment_[life.begin]] += bytes, change[segment_[life.end]] -= bytes;
    };
    for (int k = items_.size() - 1; k >= 0; --k) {
      auto const& t = items_[k];
      bool const is_read = reads[k].first != never;
      if (is_read && !t.is_in(choice)) {
        out.choice &= ~(std::uint64_t{1} << t.group);
        add(lifetime_if_kept(t, reads[k]), t.total_bytes); // kept until the last read in the backward pass
        continue;
      }
      add({time_of(t.node), t.forward_end}, t.bytes); // until the last read in the forward pass
      if (!is_read) continue;
      add({time_of(reads[k].first) - 1, reads[k].end}, t.bytes); // recomputed for the backward pass
      if ((out.cost += t.cost) >= cost_limit) return out;
      for (int n = t.first_input; n < t.last_input; ++n)
        reads[inputs_[n].item].add_clone(nest_, reads[k].first, inputs_[n]);
    }
    std::int64_t live_bytes = 0;
    for (int s = 0; s < segments_; ++s) {
      live_bytes += change[s];
      out.bytes = std::max(out.bytes, live_bytes + other_bytes_[s]);
    }
    return out;
  }

private:
  static constexpr int never = detail::rematerialization::never;
  // Maximum number of items, and of the inputs of all items; droppable nodes beyond these limits are kept.
  static constexpr int maximum_items = 320, maximum_inputs = 4 * maximum_items;
  // A segment is a range of times within which no lifetime of an item's results begins or ends. If the maximum is
  // reached, the last segment holds all further times.
  static constexpr int maximum_segments = 1024;
  // Times are in half nodes: the clones before node i run at time 2 i, and node i runs at time 2 i + 1.
  static constexpr int maximum_times = 2 * program::maximum_nodes + 2;
  static constexpr int time_of(int node) { return 2 * node + 1; }

  /// The times when a value exists, `end` excluded.
  struct lifetime {
    int begin = 0, end = 0;
  };

  /// An item that a droppable node reads.
  struct input {
    int item = 0;
    int levels = 0;           // the number of loops around the node that are not around the item's node
    bool overwritten = false; // whether the node may write its output over this input
  };

  /// The reads of an item in the backward pass.
  struct backward_reads {
    int first = never; // the first reader, or the loop around it that is as deep as the item's node
    int last = -1;     // the same for the last reader
    int end = 0;       // the time when the last read is over

    /// Adds the read by a clone that runs before node `node`.
    constexpr void add_clone(nest const& loops, int node, input const& read) {
      for (int level = read.levels; level > 0; --level) node = loops.parent[node];
      add(node, read.levels > 0 ? time_of(loops.end[node]) + 1 : time_of(node) - (read.overwritten ? 1 : 0));
    }
    constexpr void add(int node, int end_time) {
      first = std::min(first, node);
      if (end_time > end) end = end_time, last = node;
    }
  };

  /// A droppable node and its results.
  struct item {
    int node = 0, group = 0;
    double cost = 0;
    std::int64_t bytes = 0, total_bytes = 0; // of the results: `bytes` in one iteration, `total_bytes` in a micro-batch
    int forward_end = 0;                     // time when the node and its last reader in the forward pass are over
    backward_reads reads;                    // the reads in the backward pass if no node is dropped
    int first_input = 0, last_input = 0;     // the range of its inputs in `inputs_`
    std::uint64_t op = 0;                    // identity of its op; 0: it is a view (`add_view`)
    int view_of = -1;                        // the item whose result this item's result is a view of; -1: none
    constexpr bool is_in(std::uint64_t choice) const { return (choice >> group & 1u) != 0; }
  };

  /// The lifetime of an item's results if they are kept until their last read in the backward pass.
  constexpr lifetime lifetime_if_kept(item const& t, backward_reads const& reads) const {
    int scope = nest_.parent[t.node];
    while (!nest_.contains(scope, reads.last)) scope = nest_.parent[scope];
    int const last = nest_.child(scope, reads.last);
    return {time_of(nest_.child(scope, t.node)), last == reads.last ? reads.end : time_of(nest_.end[last]) + 1};
  }

  /// Whether node i may write its output over the value.
  static constexpr bool overwrites(program const& p, int i, int value) {
    auto const& n = p.nodes[i];
    if (n.kind != node_kind::call || n.op->in_place == 0) return false;
    auto const bytes = [](value_info const& v) { return v.shape.elements() * size_of(v.type); };
    auto const& target = p.values[n.outputs[0].value];
    if (is_persistent(target.role) || target.accumulates || bytes(target) != bytes(p.values[value])) return false;
    for (int k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k].value == value && (n.op->in_place >> k & 1u) != 0) return true;
    return false;
  }

  /// The number of reads by node i of the items found so far, counted as in `find_readers`.
  constexpr int reads_of(program const& p, int i) const {
    int reads = 0;
    for (auto const& r : p.nodes[i].inputs)
      for (int k = item_[r.value]; k >= 0; k = items_[k].view_of) ++reads;
    return reads;
  }
  /// Makes an item for each droppable node (for a view, only if its input is an item), up to `maximum_items` items that
  /// have `maximum_inputs` inputs in total, and assigns the items to groups.
  constexpr void find_items(program const& p, detail::rematerialization const& forward) {
    auto const droppable = forward.droppable();
    auto const with_views = slice_views(p);
    for (int v = 0; v < p.values.size(); ++v) item_[v] = -1;
    int reads = 0;
    for (int i = 0; i < forward.forward_nodes() && items_.size() < maximum_items; ++i) {
      if (!droppable.contains(i) || reads + reads_of(p, i) > maximum_inputs) continue;
      reads += reads_of(p, i);
      if (auto const& item_view = with_views.values[p.nodes[i].outputs[0].value].view;
          item_view && p.nodes[i].inputs[0] == item_view.of) {
        add_view(p, i);
        continue;
      }
      item t;
      t.node = i, t.cost = forward.cost_of(i), t.forward_end = time_of(i) + 1, t.op = p.nodes[i].op->identity;
      for (auto const& output : p.nodes[i].outputs) {
        auto const& info = p.values[output.value];
        item_[output.value] = static_cast<short>(items_.size());
        // The estimate assumes that buffers are aligned to 64 bytes, here and in `find_other_bytes`.
        auto const bytes = (info.shape.elements() * size_of(info.type) + 63) / 64 * 64;
        t.bytes += bytes, t.total_bytes += bytes * iterations(p, info);
      }
      items_.push_back(t);
    }
    for (auto& t : items_)
      t.group = t.view_of >= 0 ? items_[t.view_of].group : items_.size() <= maximum_groups ? groups_++ : group_of(t);
  }
  /// Adds node i, whose result is a view of its input 0, as an item without cost and bytes, if its input is an item.
  constexpr void add_view(program const& p, int i) {
    item t;
    t.node = i, t.view_of = item_[p.nodes[i].inputs[0].value];
    if (t.view_of < 0) return;
    item_[p.nodes[i].outputs[0].value] = static_cast<short>(items_.size());
    items_.push_back(t);
  }
  /// The number of iterations along the value's axes, without the axis of micro-batches.
  static constexpr std::int64_t iterations(program const& p, value_info const& info) {
    std::int64_t count = 1;
    for (int const axis : info.axes)
      if (axis != p.micro_batches) count *= p.axes[axis].extent;
    return count;
  }
  /// The group of an earlier item with the op, cost and bytes of `t`. If there is none, a new group, or the last group
  /// if the maximum is reached.
  constexpr int group_of(item const& t) {
    for (auto const& other : items_) {
      if (other.node == t.node) break;
      if (other.op == t.op && other.cost == t.cost && other.total_bytes == t.total_bytes) return other.group;
    }
    if (groups_ < maximum_groups) ++groups_;
    return groups_ - 1;
  }

  /// Records the reads of all items. A read of a view is also a read of the item that it is a view of.
  constexpr void find_readers(program const& p, int forward_nodes) {
    for (int i = 0, next_item = 0; i < p.nodes.size(); ++i) {
      bool const is_item = next_item < items_.size() && items_[next_item].node == i;
      if (is_item) items_[next_item].first_input = inputs_.size();
      for (auto const& r : p.nodes[i].inputs) {
        bool const overwritten = overwrites(p, i, r.value);
        for (int k = item_[r.value]; k >= 0; k = items_[k].view_of) {
          auto const read = add_read(i, k, overwritten && items_[item_[r.value]].view_of < 0, forward_nodes);
          if (is_item) inputs_.push_back(read);
        }
      }
      if (is_item) items_[next_item++].last_input = inputs_.size();
    }
  }

  /// Adds the read of item k by node i.
  constexpr input add_read(int i, int k, bool overwritten, int forward_nodes) {
    auto& t = items_[k];
    int const levels = nest_.depth(i) - nest_.depth(t.node);
    int node = i;
    for (int level = levels; level > 0; --level) node = nest_.parent[node];
    int const end = time_of(nest_.end[node]) + (overwritten && node == i ? 0 : 1);
    if (i < forward_nodes) t.forward_end = std::max(t.forward_end, end);
    else t.reads.add(node, end);
    return {k, levels, overwritten};
  }

  /// Marks the times when the lifetime of an item's result can begin or end, and makes a segment from each of these
  /// times to the next.
  constexpr void find_segments(program const& p) {
    bool is_event[maximum_times + 1]{};
    auto const mark = [&](int node) {
      for (; node != nest::root; node = nest_.parent[node])
        for (int const t : {time_of(node) - 1, time_of(node), time_of(node) + 1, time_of(nest_.end[node]) + 1})
          is_event[t] = true;
    };
    for (auto const& t : items_) mark(t.node);
    for (int i = 0; i < p.nodes.size(); ++i)
      for (auto const& r : p.nodes[i].inputs)
        if (item_[r.value] >= 0) mark(i);
    std::int64_t change[maximum_times + 1]{};
    find_other_bytes(p, change);
    std::int64_t live_bytes = 0;
    for (int t = 0; t < maximum_times; ++t) {
      if (t == 0 || (is_event[t] && segments_ < maximum_segments)) other_bytes_[segments_++] = 0;
      segment_[t] = static_cast<short>(segments_ - 1);
      live_bytes += change[t];
      other_bytes_[segments_ - 1] = std::max(other_bytes_[segments_ - 1], live_bytes);
    }
  }
  /// Sets the changes, by time, of the bytes of all values that do not persist and are not results of items.
  constexpr void find_other_bytes(program const& p, std::int64_t (&change)[maximum_times + 1]) const {
    auto const memory = detail::memory_planner(p, 0, 64).lifetimes();
    for (int v = 0; v < p.values.size(); ++v) {
      auto const& b = memory.buffers[v];
      if (b.size == 0 || item_[v] >= 0 || is_persistent(p.values[v].role)) continue;
      bool const in_run = b.dies < p.nodes.size();
      change[b.born < 0 ? 0 : time_of(b.born)] += b.size;
      change[in_run ? time_of(b.dies) + (overwrites(p, b.dies, v) ? 0 : 1) : maximum_times] -= b.size;
    }
  }

  nest nest_;
  fixed_vector<item, maximum_items> items_; // in the order of their nodes
  fixed_vector<input, maximum_inputs> inputs_;
  int groups_ = 0, segments_ = 0;
  short item_[program::maximum_values]{};        // of a value: the item that writes it; -1: none
  short segment_[maximum_times]{};               // of a time: its segment
  std::int64_t other_bytes_[maximum_segments]{}; // of a segment: maximum of the bytes that `find_other_bytes` counts
};

} // namespace constrain
