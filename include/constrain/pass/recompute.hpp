#pragma once

#include "constrain/op/copy/copy.hpp"
#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/rematerialize.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/policy/checkpoint.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Rewrites one forward loop and its reversed loop so that the backward pass recomputes the body of the forward loop.
/// The forward pass keeps only the loop-carried value, once every `segment_length` iterations.
class recomputation {
public:
  constexpr recomputation(program const& p, int forward, int segment_length)
      : in_(p), nest_(p), out_(without_nodes(p)), forward_(forward), segment_length_(segment_length),
        axis_(p.nodes[forward].axis) {
    // A policy's pass may add values that a loop over this axis carries. With two such values, there may be two
    // reversed loops, or two values to recompute.
    bool is_only_one = true;
    for (auto const& n : p.nodes)
      for (auto const& output : n.outputs) {
        if (n.backward || p.values[output.value].loop_carried_axis != axis_) continue;
        is_only_one = is_only_one && (carried_ < 0 || carried_ == output.value);
        carried_ = output.value;
      }
    auto const is_reversed = [&](node const& n) {
      return n.kind == node_kind::loop && n.axis == axis_ && n.reversed && n.backward;
    };
    for (int i = p.nodes.size() - 1; is_only_one && is_carried_in(forward) && i > forward; --i)
      if (is_reversed(p.nodes[i])) reversed_ = i;
  }

  /// Whether the forward loop is the only one over its axis that carries a value, carries only one, and has a reversed
  /// loop.
  constexpr bool applies() const { return reversed_ >= 0; }

  /// The rewritten program. Precondition: `applies()`.
  constexpr program run() {
    int const end = nest_.end[reversed_];
    if (segment_length_ > 1) {
      split_axis();
      append_nodes(0, forward_);
      append_segmented_forward();
      append_nodes(nest_.end[forward_] + 1, reversed_);
      append_segmented_backward();
      append_nodes(end + 1, in_.nodes.size());
    } else {
      append_nodes(0, reversed_ + 1);
      clone_body({carried_, at::current}, {});
      append_with_clones(reversed_ + 1, end);
      append_nodes(end, in_.nodes.size());
    }
    return dead_code_elimination(out_.program);
  }

private:
  /// Whether the loop that begins at node `loop` writes `carried_`.
  constexpr bool is_carried_in(int loop) const {
    for (int i = loop + 1; i < nest_.end[loop]; ++i)
      for (auto const& output : in_.nodes[i].outputs)
        if (output.value == carried_) return true;
    return false;
  }

  /// Splits the repeat's axis: iteration = segment * segment_length_ + iteration within the segment.
  constexpr void split_axis() {
    auto& p = out_.program;
    auto const original = p.axes[axis_];
    segments_ = p.add_axis({.name = p.names.add(p.text(original.name), "segment"),
                            .extent = (original.extent + segment_length_ - 1) / segment_length_,
                            .original = axis_,
                            .factor = segment_length_});
    iterations_ = p.add_axis({.name = p.names.add(p.text(original.name), "iteration"),
                              .extent = segment_length_ < original.extent ? segment_length_ : original.extent,
                              .original = axis_,
                              .factor = 1});
    // A value that a node outside of both loops reads or writes keeps the axis.
    bool used_outside[program::maximum_values]{};
    for (int i = 0; i < in_.nodes.size(); ++i) {
      if (nest_.contains(forward_, i) || nest_.contains(reversed_, i)) continue;
      for (auto const& input : in_.nodes[i].inputs) used_outside[input.value] = true;
      for (auto const& output : in_.nodes[i].outputs) used_outside[output.value] = true;
    }
    for (int v = 0; v < p.values.size(); ++v) {
      auto& info = p.values[v];
      bool const keeps_axis = is_persistent(info.role) || info.role == role::compute_copy ||
                              (info.role == role::gradient && !info.ends_with_update);
      if (!info.axes.contains(axis_) || keeps_axis || used_outside[v]) continue;
      axis_list axes;
      for (int axis : info.axes)
        if (!(axis == axis_ ? axes.push_back(segments_) && axes.push_back(iterations_) : axes.push_back(axis)))
          p.fail({why::program_too_large, info.line, 0, axis_list::capacity, axis_list::capacity + 1});
      info.axes = axes;
    }
  }

  constexpr void copy(ref from, ref to) { out_.call<op::copy>({from}, {to}, {}, in_.values[carried_].line); }

  /// Adds a value with the type and shape of the loop-carried value. A loop over axis `axis` carries the new value.
  constexpr int new_carried(int axis) {
    auto const info = in_.values[carried_];
    int const v = out_.new_value({info.type, info.shape}, role::activation, info.line);
    out_.program.values[v].loop_carried_axis = axis;
    return v;
  }

  /// Appends the forward loop as a loop over segments, each of which keeps its input.
  constexpr void append_segmented_forward() {
    auto const info = in_.values[carried_];
    out_.open(segments_, false);
    segment_inputs_ = out_.new_value({info.type, info.shape}, role::activation, info.line);
    copy({carried_, at::current}, {segment_inputs_, at::current});
    out_.open(iterations_, false);
    append_nodes(forward_ + 1, nest_.end[forward_]);
    out_.close();
    out_.close();
  }

  /// Appends the reversed loop as a reversed loop over segments. Each iteration recomputes one segment, then runs its
  /// backward pass.
  constexpr void append_segmented_backward() {
    out_.open(segments_, true);
    int const recomputed = new_carried(iterations_);
    copy({segment_inputs_, at::current}, {recomputed, at::initial});
    out_.open(iterations_, false);
    clone_body({recomputed, at::current}, {recomputed, at::next});
    out_.close();
    out_.open(iterations_, true);
    append_with_clones(reversed_ + 1, nest_.end[reversed_]);
    out_.close();
    out_.close();
  }

  /// Appends a clone of the forward body; the clone writes new values. `current` and `next` replace the loop-carried
  /// value's `current` and `next`. If `next` is empty, the clone does not compute the next value, because no node would
  /// read it.
  constexpr void clone_body(ref current, ref next) {
    clone_of_carried_current_ = current;
    clone_of_carried_next_ = next;
    rewrite_nodes(out_, in_, forward_ + 1, nest_.end[forward_], [&](builder&, node n, int) {
      if (n.kind == node_kind::call && is_left_out(n)) return;
      for (auto& input : n.inputs) input = clone_of(input);
      for (auto& output : n.outputs) {
        if (output.value != carried_ && !cloned_[output.value]) {
          auto info = out_.program.values[output.value];
          info.axes = out_.enclosing;
          // The axis of the loop that carries a value is not among the value's axes.
          if (info.is_loop_carried() && output.where != at::initial) info.axes.pop_back();
          cloned_[output.value] = {out_.program.add_value(info), at::current};
        }
        output = clone_of(output);
      }
      out_.program.add_node(n);
    });
  }

  /// Whether the clone leaves a call out: the call writes an accumulator, or a `next` value that no node would read.
  constexpr bool is_left_out(node const& n) const {
    for (auto const& output : n.outputs) {
      if (in_.values[output.value].accumulates) return true;
      if (output.value == carried_ && output.where == at::next && !clone_of_carried_next_) return true;
    }
    return false;
  }

  /// The clone of `r`, or `r` if it has none.
  constexpr ref clone_of(ref r) const {
    if (r.value == carried_) {
      if (r.where == at::current && clone_of_carried_current_) return clone_of_carried_current_;
      if (r.where == at::next && clone_of_carried_next_) return clone_of_carried_next_;
      return r;
    }
    if (cloned_[r.value]) return {cloned_[r.value].value, r.where};
    return r;
  }

  /// Appends the nodes in [begin, end) unchanged.
  constexpr void append_nodes(int begin, int end) {
    rewrite_nodes(out_, in_, begin, end, [](builder& out, node const& n, int) { out.program.add_node(n); });
  }
  /// Appends the nodes in [begin, end). Inputs that have a clone are replaced with the clone.
  constexpr void append_with_clones(int begin, int end) {
    rewrite_nodes(out_, in_, begin, end, [&](builder&, node n, int) {
      for (auto& input : n.inputs) input = clone_of(input);
      out_.program.add_node(n);
    });
  }

  program const& in_;
  nest nest_;
  builder out_;
  int forward_ = -1;        // the forward loop's node
  int reversed_ = -1;       // the node of its reversed loop; -1: none
  int segment_length_ = 1;  // iterations in a segment
  int axis_ = -1;           // axis of both loops
  int carried_ = -1;        // the loop-carried value
  int segments_ = -1;       // axis of the segments
  int iterations_ = -1;     // axis of the iterations within a segment
  int segment_inputs_ = -1; // the value that holds each segment's input
  ref clone_of_carried_current_, clone_of_carried_next_;
  ref cloned_[program::maximum_values]{}; // the clone of each value of the body
};

} // namespace detail

/// Activation checkpointing (Chen et al. 2016). With checkpoint::every or checkpoint::sqrt, each outermost repeat keeps
/// the input of every k-th iteration, where k is `checkpointing.segment_length(iterations)`, and the backward pass
/// recomputes the other activations of the repeat. The number of iterations need not be a multiple of k. A repeat does
/// not change if a policy's pass has added a second value that a loop over its iterations carries. With
/// checkpoint::keep, the backward pass recomputes the results that it needs of all droppable nodes (rematerialize.hpp),
/// except calls to the ops in `checkpointing.kept`; with checkpoint::budget, only of the nodes in `dropped`. The
/// weights after training are the same with every checkpointing policy, bit for bit.
constexpr program recompute(program const& p, slot_of::checkpointing const& checkpointing,
                            node_set const& dropped = {}) {
  if (checkpointing.has_limit) return dropped == node_set{} ? p : rematerialize(p, dropped);
  if (checkpointing.by_operation) return rematerialize_all_but(p, checkpointing.kept);
  if (!checkpointing.recomputes || !p.failure.ok()) return p;
  program out = p;
  for (int i = 0; i < out.nodes.size(); ++i) {
    auto const& n = out.nodes[i];
    if (n.kind != node_kind::loop || n.axis == out.micro_batches) continue;
    int const end = out.end_of(i);
    if (!n.reversed && out.axes[n.axis].original < 0) {
      detail::recomputation candidate(out, i, checkpointing.segment_length(out.axes[n.axis].extent));
      if (candidate.applies()) {
        out = candidate.run();
        i = out.end_of(i);
        continue;
      }
    }
    i = end;
  }
  return out;
}

} // namespace constrain
