#pragma once

#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace refusals {

/// A gradient rule adds more than `expected` terms to the gradients of its inputs.
template <diagnosis d> struct too_many_gradient_terms {
  static_assert(d.ok(), "an op's gradient rule adds more than `expected` terms to the gradients of its inputs; add "
                        "terms of the same input with ct::add, and pass `backward::add` the sum");
};

} // namespace refusals

/// The argument of an op's gradient rule: the node to differentiate, the gradient of the node's output 0, and functions
/// that append nodes. Like the nodes of the forward pass, the appended nodes call ops. They compute the gradients of
/// the node's inputs (the vector-Jacobian product).
class backward {
public:
  static constexpr int maximum_terms = 2 * node::maximum_inputs; // terms that one call to a gradient rule can add

  /// A term that the gradient rule adds to the gradient of an input.
  struct contribution {
    int input = 0;  // index of the input
    value gradient; // the term, with the input's shape
  };

  /// For the pass `differentiate`, which makes one `backward` for each node `forward` that it differentiates. The
  /// rule's nodes are appended to `out`.
  constexpr backward(builder& out, node const& forward) : out_(out), forward_(forward) {}

  /// Input i of the node, the number of inputs, and output j. `i` and `j` must be at least 0. If the node has no such
  /// input or output, the value is empty.
  constexpr value input(int i) const { return {out_, i < forward_.inputs.size() ? forward_.inputs[i] : ref()}; }
  constexpr int inputs() const { return forward_.inputs.size(); }
  constexpr value output(int j = 0) const { return {out_, j < forward_.outputs.size() ? forward_.outputs[j] : ref()}; }
  /// The options of the node, whose op must be `op`, and the source line where the model calls the op.
  template <class op> constexpr options_of<op> options() const { return unpack<options_of<op>>(forward_.attributes); }
  constexpr int line() const { return forward_.line; }

  /// The gradient of output 0, with its shape and, unless the op has `any_gradient_type`, with its type. Other outputs
  /// (saved statistics, scratch) have no gradient.
  constexpr value gradient() const { return {out_, gradient_}; }
  /// Whether the gradient of input i is needed: input i is a trained parameter or depends on one.
  constexpr bool needs(int i) const { return needs_[i]; }

  /// Adds `g` to the gradient of input i. Does nothing if that gradient is not needed. Refused: more than
  /// `maximum_terms` terms in one call to the gradient rule, and a `g` whose shape differs from the shape of input i.
  constexpr void add(int i, value g) {
    if (needs_[i] && !contributions_.push_back({i, g}))
      out_.program.fail(diagnosis_with<refusals::too_many_gradient_terms>(forward_.line, forward_.called_from,
                                                                          maximum_terms, maximum_terms + 1));
  }

  /// Appends a call to `op` with these options, and adds the call's output j to the gradient of input `targets[j]`; -1:
  /// output j is not a gradient. There must not be more targets than outputs. Outputs after the last target are not
  /// gradients either. The call is appended even if no input in `targets` needs its gradient. If the gradient of input
  /// `targets[j]` is an accumulating buffer (of a parameter, or of a value from outside a loop) with the type of output
  /// j, no earlier output is this buffer, and the op can accumulate into output j, the kernel accumulates directly into
  /// the buffer. Refused: more inputs or outputs than a node can have, inputs that the shape rule of `op` refuses, and
  /// what `add` refuses.
  template <class op>
  constexpr void emit(std::initializer_list<value> inputs, std::initializer_list<int> targets,
                      options_of<op> const& options = {}) {
    emit_node(info_of<op>, inputs, targets, pack(options));
  }

  /// For the pass `differentiate`: sets the gradient of output 0.
  constexpr void set_gradient(ref g) { gradient_ = g; }
  /// For the pass `differentiate`: marks input i as needing a gradient. `buffer` is the buffer in which this gradient
  /// accumulates, or an empty `ref`. A write to the buffer sets `*is_written`.
  constexpr void set_needs(int i, ref buffer, bool* is_written) {
    needs_[i] = true;
    buffer_[i] = buffer;
    is_written_[i] = is_written;
  }
  /// For the pass `differentiate`: the terms that the rule added, in order, except the terms that a kernel accumulates
  /// directly into a buffer (see `emit`).
  constexpr auto const& contributions() const { return contributions_; }

private:
  /// Whether `buffer` has the type of output j. True if there is no such output, because the call is refused.
  constexpr bool has_type(ref buffer, inferred const& result, int j) const {
    return j >= result.outputs.size() || result.outputs[j].type == out_.type_of(buffer).type;
  }

  constexpr void emit_node(op_info const& info, std::initializer_list<value> inputs, std::initializer_list<int> targets,
                           attributes const& options) {
    node n;
    n.attributes = options;
    n.line = forward_.line;
    n.random_key = forward_.random_key;
    operand_types types;
    for (auto const& input : inputs) {
      out_.add_input(n, input.where());
      types.push_back(out_.type_of(input.where()));
    }
    int j = 0;
    for (int target : targets) {
      bool const direct = target >= 0 && needs_[target] && buffer_[target] && (info.accumulating >> j & 1) != 0 &&
                          !n.outputs.contains(buffer_[target]) &&
                          has_type(buffer_[target], info.infer(types, options), j);
      out_.add_output(n, direct ? buffer_[target] : ref{});
      if (direct) *is_written_[target] = true;
      ++j;
    }
    auto const emitted = out_.append(info, n);
    if (!out_.program.failure.ok()) return; // a refused call has no outputs
    j = 0;
    for (int target : targets) {
      if (target >= 0 && !n.outputs[j]) add(target, {out_, emitted.outputs[j]});
      ++j;
    }
  }

  builder& out_;
  node forward_;
  ref gradient_;
  bool needs_[node::maximum_inputs]{};
  ref buffer_[node::maximum_inputs]{};
  bool* is_written_[node::maximum_inputs]{};
  fixed_vector<contribution, maximum_terms> contributions_;
};

} // namespace constrain
