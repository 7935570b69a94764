#pragma once

#include "constrain/op/copy/copy.hpp"
#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/policy/checkpoint.hpp"
#include "constrain/program/builder.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Rewrites one forward loop and its reversed twin so that the backward pass computes the loop's body again: of the
/// forward pass only the loop-carried value is kept, once every `every` iterations.
class recomputation {
public:
  constexpr recomputation(program const& p, int forward, int every)
      : in_(p), nest_(p), forward_(forward), every_(every), axis_(p.nodes[forward].axis) {
    for (int i = forward + 1; i < p.nodes.size(); ++i)
      if (p.nodes[i].kind == node_kind::loop && p.nodes[i].axis == axis_) reversed_ = i;
  }

  constexpr bool applies() const { return reversed_ >= 0; }

  constexpr program run() {
    out_.program = in_;
    out_.program.nodes.count = 0;
    for (int loop = nest_.parent[forward_]; loop != nest::root; loop = nest_.parent[loop]) around_.push_back(loop);
    for (int i = around_.size() - 1; i >= 0; --i) out_.enclosing.push_back(in_.nodes[around_[i]].axis);
    for (int v = 0; v < in_.values.size(); ++v)
      if (in_.values[v].carried_along == axis_ && defined_in(v, forward_)) carried_ = v;

    auto const inside = [&](int i) { return nest_.contains(reversed_, i); };
    bool const split = every_ > 1;
    if (split) split_axis();
    for (int i = 0; i < in_.nodes.size(); ++i) {
      if (i == forward_ && split) i = segmented_forward();
      else if (i == reversed_ && split) i = segmented_backward();
      else if (i == reversed_) {
        out_.program.add_node(in_.nodes[i]);
        out_.enclosing.push_back(axis_);
        clone_body({carried_, at::current}, {});
        out_.enclosing.pop_back();
      } else out_.program.add_node(inside(i) ? with_clones(in_.nodes[i]) : in_.nodes[i]);
    }
    return dead_code_elimination(out_.program);
  }

private:
  constexpr bool defined_in(int v, int loop) const {
    for (int i = loop + 1; i < nest_.end[loop]; ++i)
      for (auto const& output : in_.nodes[i].outputs)
        if (output.value == v) return true;
    return false;
  }

  /// Splits the repeat's axis: iteration = segment * every + iteration_in_segment.
  constexpr void split_axis() {
    auto& p = out_.program;
    auto const whole = p.axes[axis_];
    segments_ = p.add_axis({.name = p.names.add(p.text(whole.name), "segment"),
                            .extent = (whole.extent + every_ - 1) / every_,
                            .whole = axis_,
                            .factor = every_});
    iterations_ = p.add_axis({.name = p.names.add(p.text(whole.name), "iteration"),
                              .extent = every_ < whole.extent ? every_ : whole.extent,
                              .whole = axis_,
                              .factor = 1});
    for (auto& info : p.values) {
      bool const whole_stack =
          is_persistent(info.role) || info.role == role::gradient || info.role == role::compute_copy;
      if (!info.axes.contains(axis_) || whole_stack) continue;
      axis_list axes;
      for (int axis : info.axes) {
        if (axis != axis_) axes.push_back(axis);
        else if (!(axes.push_back(segments_) && axes.push_back(iterations_)))
          p.fail({why::program_too_large, info.line, 0, axis_list::capacity, axis_list::capacity + 1});
      }
      info.axes = axes;
    }
  }

  constexpr void copy(ref from, ref to) {
    node n;
    n.line = in_.values[carried_].line;
    n.inputs.push_back(from);
    n.outputs.push_back(to);
    out_.append(info_of<op::copy>, n);
  }

  constexpr int new_carried(int along) {
    auto const info = in_.values[carried_];
    int const v = out_.new_value({info.type, info.shape}, role::activation, info.line);
    out_.program.values[v].carried_along = along;
    return v;
  }

  /// The forward loop as a loop over segments, each of which keeps its input; returns the last node that it replaces.
  constexpr int segmented_forward() {
    auto const info = in_.values[carried_];
    out_.open(segments_, false);
    kept_ = out_.new_value({info.type, info.shape}, role::activation, info.line);
    copy({carried_, at::current}, {kept_, at::current});
    out_.open(iterations_, false);
    for (int i = forward_ + 1; i < nest_.end[forward_]; ++i) out_.program.add_node(in_.nodes[i]);
    out_.close();
    out_.close();
    return nest_.end[forward_];
  }

  /// The reversed loop as a reversed loop over segments: recompute the segment, then its backward pass; returns the
  /// last node that it replaces.
  constexpr int segmented_backward() {
    out_.open(segments_, true);
    int const again = new_carried(iterations_);
    copy({kept_, at::current}, {again, at::initial});
    out_.open(iterations_, false);
    clone_body({again, at::current}, {again, at::next});
    out_.close();
    out_.open(iterations_, true);
    for (int i = reversed_ + 1; i < nest_.end[reversed_]; ++i) out_.program.add_node(with_clones(in_.nodes[i]));
    out_.close();
    out_.close();
    return nest_.end[reversed_];
  }

  /// Appends the forward body once more, on new values. `here` and `next` replace the loop-carried value's `current`
  /// and `next`; an empty `next`: nothing reads the last one, so it is not computed.
  constexpr void clone_body(ref here, ref next) {
    clone_of_carried_current_ = here;
    clone_of_carried_next_ = next;
    for (int i = forward_ + 1; i < nest_.end[forward_]; ++i) {
      auto n = in_.nodes[i];
      if (n.kind == node_kind::loop) out_.enclosing.push_back(n.axis);
      if (n.kind == node_kind::end) out_.enclosing.pop_back();
      if (n.kind == node_kind::call && leaves(n)) continue;
      for (auto& input : n.inputs) input = clone(input);
      for (auto& output : n.outputs) {
        if (output.value != carried_ && !cloned_[output.value]) {
          auto info = out_.program.values[output.value];
          info.axes = out_.enclosing;
          if (info.is_loop_carried() && output.where != at::initial) info.axes.pop_back();
          cloned_[output.value] = {out_.program.add_value(info), at::current};
        }
        output = clone(output);
      }
      out_.program.add_node(n);
    }
  }

  /// Whether a call writes an accumulator, or a loop-carried value that nobody reads: not to be repeated.
  constexpr bool leaves(node const& n) const {
    for (auto const& output : n.outputs) {
      if (in_.values[output.value].accumulates) return true;
      if (output.value == carried_ && output.where == at::next && !clone_of_carried_next_) return true;
    }
    return false;
  }

  constexpr ref clone(ref r) const {
    if (r.value == carried_) {
      if (r.where == at::current && clone_of_carried_current_) return clone_of_carried_current_;
      if (r.where == at::next && clone_of_carried_next_) return clone_of_carried_next_;
      return r;
    }
    if (cloned_[r.value]) return {cloned_[r.value].value, r.where};
    return r;
  }

  constexpr node with_clones(node n) const {
    for (auto& input : n.inputs) input = clone(input);
    return n;
  }

  program const& in_;
  nest nest_;
  builder out_;
  int forward_ = -1;                              // the forward loop's node
  int reversed_ = -1;                             // the node of its reversed twin
  int every_ = 1;                                 // iterations in a segment
  int axis_ = -1;                                 // axis of both loops
  int carried_ = -1;                              // the loop-carried value
  int segments_ = -1;                             // axis of the segments
  int iterations_ = -1;                           // axis of the iterations within a segment
  int kept_ = -1;                                 // the value that holds each segment's input
  fixed_vector<int, axis_list::capacity> around_; // loops around the forward loop, innermost first
  ref clone_of_carried_current_, clone_of_carried_next_;
  ref cloned_[program::maximum_values]{}; // of each value of the body, its clone
};

} // namespace detail

/// Activation checkpointing (Chen et al. 2016): of each outermost repeat keeps the input of every `.iterations`-th
/// iteration and computes the other activations again in the backward pass; 0 keeps all activations. The number of
/// iterations need not be a multiple of it. Weights after training are the same bit for bit.
constexpr program recompute(program const& p, slot_of::checkpointing const& checkpointing) {
  int const every = checkpointing.iterations;
  if (every == 0 || !p.failure.ok()) return p;
  program out = p;
  for (int i = 0; i < out.nodes.size(); ++i) {
    auto const& n = out.nodes[i];
    if (n.kind != node_kind::loop || n.axis == out.micro_batches) continue;
    int const end = out.end_of(i);
    if (!n.reversed && out.axes[n.axis].whole < 0) {
      detail::recomputation again(out, i, every);
      if (again.applies()) {
        out = again.run();
        i = out.end_of(i);
        continue;
      }
    }
    i = end;
  }
  return out;
}

} // namespace constrain
