#pragma once

#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// What a gradient rule sees of the node it differentiates, and how it answers: with nodes that compute the gradients
/// of the inputs from those of the outputs. Backward kernels are ops like all others.
class backward {
public:
  /// A gradient that a rule gave, and of which input.
  struct contribution {
    int input = 0;
    value gradient;
  };

  /// Of the node `forward`; what the rule emits goes to `out`.
  constexpr backward(builder& out, node const& forward) : out_(out), forward_(forward) {}

  /// The operands of the node, and how many inputs there are.
  constexpr value input(int i) const { return {out_, forward_.inputs[i]}; }
  constexpr int inputs() const { return forward_.inputs.size(); }
  constexpr value output(int j = 0) const { return {out_, forward_.outputs[j]}; }
  /// The attributes of the node, and the line that called its op.
  constexpr constrain::attributes const& options() const { return forward_.attributes; }
  constexpr int line() const { return forward_.line; }

  /// The gradient of output 0.
  constexpr value gradient() const { return {out_, gradient_}; }
  /// Whether anything that is trained lies behind input i.
  constexpr bool needs(int i) const { return needs_[i]; }

  /// `g` is (a part of) the gradient of input i.
  constexpr void add(int i, value g) {
    if (needs_[i]) contributions_.push_back({i, g});
  }

  /// Calls `op`; its output j is (a part of) the gradient of input `targets[j]`, -1 for an output that is none. An op
  /// that can accumulate writes into the buffer of a parameter directly.
  template <class op>
  constexpr void emit(std::initializer_list<value> inputs, std::initializer_list<int> targets,
                      constrain::attributes const& a = {}) {
    static_assert(sizeof(detail::named<op>) > 0);
    node n;
    n.attributes = a;
    n.line = forward_.line;
    n.random_key = forward_.random_key;
    for (auto const& input : inputs) n.inputs.push_back(input.where());
    int j = 0;
    for (int target : targets) {
      bool const direct = target >= 0 && needs_[target] && buffer_[target] && (info_of<op>.accumulating >> j & 1) != 0;
      n.outputs.push_back(direct ? buffer_[target] : ref{});
      if (direct) *written_[target] = true;
      ++j;
    }
    auto const emitted = out_.append(info_of<op>, n);
    j = 0;
    for (int target : targets) {
      if (target >= 0 && j < emitted.outputs.size() && !(n.outputs[j])) add(target, {out_, emitted.outputs[j]});
      ++j;
    }
  }

  // For the pass that drives the rules.
  constexpr void set_gradient(ref g) { gradient_ = g; }
  /// The gradient of input i is wanted; `buffer` is where it accumulates, if it does.
  constexpr void set_needs(int i, ref buffer, bool* written) {
    needs_[i] = true;
    buffer_[i] = buffer;
    written_[i] = written;
  }
  /// What the rule gave, in its order.
  constexpr auto const& contributions() const { return contributions_; }

private:
  builder& out_;
  node forward_;
  ref gradient_;
  bool needs_[node::maximum_inputs]{};
  ref buffer_[node::maximum_inputs]{};
  bool* written_[node::maximum_inputs]{};
  fixed_vector<contribution, 2 * node::maximum_inputs> contributions_;
};

} // namespace constrain
