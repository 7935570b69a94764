#pragma once

#include "constrain/op/add/add.hpp"
#include "constrain/op/cast/cast.hpp"
#include "constrain/op/constant/constant.hpp"
#include "constrain/op/copy/copy.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/trained_values.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/setting.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Reverse-mode differentiation of a program with loops: visits the nodes from last to first, lets each op's gradient
/// rule append the backward nodes, and appends a loop for each loop, over the same axis.
class differentiation {
public:
  /// `scale_loss`: as in `differentiate`.
  constexpr differentiation(program const& p, bool scale_loss) : scale_loss_(scale_loss), trained_(p) {
    out_.program = p;
    out_.real = p.values[p.result("logits").value].type;
    add_buffers_of_captured_values();
    for (int v = 0; v < p.values.size(); ++v)
      if (is_trainable(p.values[v].role)) buffer_[key({v, at::current})] = add_parameter_gradient(v);
  }

  /// The program `p`, the argument of the constructor, with its backward pass.
  constexpr program const& run(program const& p) {
    auto& program = out_.program;
    bool const accumulates = program.micro_batches >= 0;
    // The casts to compute copies come before the loop over micro-batches. A policy's pass may have added calls before
    // and after the loop.
    int loop = 0;
    auto const is_loop = [&](node const& n) { return n.kind == node_kind::loop && n.axis == program.micro_batches; };
    while (accumulates && loop < p.nodes.size() && !is_loop(p.nodes[loop])) ++loop;
    if (accumulates && loop == p.nodes.size()) {
      program.fail(diagnosis_with<refusals::no_loop_over_micro_batches>());
      return program;
    }
    int const forward_end = accumulates ? p.end_of(loop) : p.nodes.size();
    program.nodes.count = forward_end;
    if (accumulates) out_.enclosing.push_back(program.micro_batches);
    seed();
    reverse(accumulates ? loop + 1 : 0, forward_end);
    if (accumulates) {
      out_.close();
      reverse(0, loop);
    }
    for (int i = forward_end; i < program.nodes.size(); ++i) program.nodes[i].backward = true;
    for (int i = forward_end + 1; i < p.nodes.size(); ++i) program.add_node(p.nodes[i]);
    for (int v = 0; v < program.values.size(); ++v)
      if (is_trainable(program.values[v].role) && !is_written_[key({v, at::current})])
        program.fail(diagnosis_with<refusals::parameter_without_path_to_the_loss>(program.values[v].line, 0, 1, 0));
    return program;
  }

private:
  constexpr bool is_compute_copy(ref r) const { return out_.program.values[r.value].role == role::compute_copy; }

  /// Index of a reference in `gradient_`, `buffer_` and `is_written_`. A compute copy has the index of its parameter,
  /// because the two share one gradient.
  constexpr int key(ref r) const {
    return (is_compute_copy(r) ? out_.program.values[r.value].belongs_to : r.value) * 4 + static_cast<int>(r.where);
  }
  static constexpr int keys = program::maximum_values * 4;

  /// Creates an accumulating buffer for the gradient of each captured value in `trained_`, except parameters and their
  /// copies. A captured value is read in a deeper loop than the loop of its definition, so every iteration of the
  /// deeper loop contributes to the value's gradient.
  constexpr void add_buffers_of_captured_values() {
    auto& p = out_.program;
    int depth = 0;
    int const nodes = p.nodes.size();
    for (int i = 0; i < nodes; ++i) {
      if (p.nodes[i].kind == node_kind::loop) ++depth;
      if (p.nodes[i].kind == node_kind::end) --depth;
      if (p.nodes[i].kind != node_kind::call) continue;
      for (auto const& input : p.nodes[i].inputs) {
        auto const info = p.values[input.value];
        if (!trained_.contains[input.value] || is_parameter(info.role) || is_compute_copy(input) || buffer_[key(input)])
          continue;
        bool const defined_inside = info.is_loop_carried() && (input.where == at::current || input.where == at::next);
        int const definition_depth = info.axes.size() + (defined_inside ? 1 : 0);
        if (depth <= definition_depth) continue;
        value_info buffer;
        buffer.type = info.type;
        buffer.shape = info.shape;
        buffer.accumulates = true;
        buffer.line = info.line;
        buffer.axes = info.axes;
        if (defined_inside) buffer.axes.push_back(info.loop_carried_axis);
        buffer_[key(input)] = {p.add_value(buffer), at::current};
      }
    }
  }

  /// Creates and returns the accumulating buffer for the gradient of a parameter.
  constexpr ref add_parameter_gradient(int parameter) {
    auto const& info = out_.program.values[parameter];
    value_info g;
    g.type = accumulator_of(info.type);
    g.role = role::gradient;
    g.shape = info.shape;
    g.axes = info.axes;
    g.accumulates = true;
    g.belongs_to = parameter;
    g.line = info.line;
    return {out_.program.add_value(g), at::current};
  }

  /// Seeds the backward pass with the gradient of the scaled loss with respect to the loss: the loss scale, or 1.
  constexpr void seed() {
    auto const loss = out_.program.result("loss");
    if (scale_loss_) {
      auto const scale = setting_of(value{out_, loss}, loss_scale_setting);
      setting_of(value{out_, loss}, loss_scale_steps_setting); // creates the setting
      out_.program.loss_scale = scale.where();
      bool const same_type = out_.type_of(loss) == out_.type_of(scale.where());
      gradient_[key(loss)] = (same_type ? scale : emit<op::full_like>({value{out_, loss}, scale}, {}, 0)).where();
      return;
    }
    auto const one = emit<op::constant_like>({value{out_, loss}}, {.value = 1}, 0);
    gradient_[key(loss)] = one.where();
  }

  /// The gradient of `r` so far; an empty reference if there is none.
  constexpr ref gradient_of(ref r) const {
    if (buffer_[key(r)]) return is_written_[key(r)] ? buffer_[key(r)] : ref{};
    return gradient_[key(r)];
  }

  /// The gradient `g` in the type `type`.
  constexpr ref in_type(ref g, dtype type, int line) {
    return out_.type_of(g).type == type ? g : out_.call<op::cast>({g}, {}, {.to = type}, line).outputs[0];
  }

  /// Appends a node that copies the gradient `from`, cast to the type of `to`, into `to`, or adds it if `to` is an
  /// accumulating buffer that is already written.
  constexpr void copy_gradient(ref from, ref to, int line) {
    out_.call<op::copy>({in_type(from, out_.type_of(to).type, line)}, {to}, {}, line);
  }

  /// The sum of two gradients, in the wider of their types.
  constexpr ref sum_of(ref a, ref b, int line) {
    auto const type = out_.type_of(a).type, other_type = out_.type_of(b).type;
    auto const wider = size_of(type) < size_of(other_type) ? other_type : type;
    return add(value{out_, in_type(a, wider, line)}, value{out_, in_type(b, wider, line)}, line).where();
  }

  /// Adds `g` to the gradient of `to`, or makes `g` the gradient if there is none yet. Refused: a `g` whose shape
  /// differs from the shape of `to`.
  constexpr void contribute(ref to, ref g, int line) {
    auto const& values = out_.program.values;
    if (values[to.value].shape != values[g.value].shape)
      return out_.program.fail(diagnosis_with<refusals::gradient_has_another_shape>(
          line, out_.called_from, values[to.value].shape.elements(), values[g.value].shape.elements()));
    if (ref const buffer = buffer_[key(to)]) {
      copy_gradient(g, buffer, line);
      is_written_[key(to)] = true;
    } else if (ref& sum = gradient_[key(to)]) {
      sum = sum_of(sum, g, line);
    } else {
      sum = g;
    }
  }

  /// Appends the backward nodes of the nodes in [begin, end).
  constexpr void reverse(int begin, int end) {
    for (int i = end - 1; i >= begin; --i) {
      if (out_.program.nodes[i].kind == node_kind::call) {
        reverse_call(out_.program.nodes[i]);
        continue;
      }
      int loop = begin;
      while (out_.program.nodes[loop].kind != node_kind::loop || out_.program.end_of(loop) != i) ++loop;
      reverse_loop(loop, i);
      i = loop;
    }
  }

  /// Whether one run of a call works on several instances of output 0 or of an input in `trained_`. A gradient rule
  /// works on only one instance.
  constexpr bool works_on_a_stack(node const& n) const {
    auto const is_stack = [&](ref r) { return out_.instances(out_.program.values[r.value]) > 1; };
    bool any = is_stack(n.outputs[0]);
    for (auto const& input : n.inputs) any = any || (trained_.contains[input.value] && is_stack(input));
    return any;
  }

  /// Appends the backward nodes of a call, if its output 0 has a gradient and `trained_` contains any of its inputs.
  /// Refuses the program if another output of the call has a gradient, or if backward nodes are needed, but the op has
  /// no gradient rule or the call works on a stack.
  constexpr void reverse_call(node const n) {
    // A compute copy shares the gradient of its parameter.
    if (is_compute_copy(n.outputs[0])) return;
    for (int j = 1; j < n.outputs.size(); ++j)
      if (gradient_of(n.outputs[j]))
        return out_.program.fail(diagnosis_with<refusals::output_without_a_gradient>(n.line, n.called_from, 0, j));
    ref const g = gradient_of(n.outputs[0]);
    if (!g) return;
    backward rule(out_, n);
    bool any_needs = false;
    for (int i = 0; i < n.inputs.size(); ++i) {
      if (!trained_.contains[n.inputs[i].value]) continue;
      int const k = key(n.inputs[i]);
      rule.set_needs(i, buffer_[k], &is_written_[k]);
      any_needs = true;
    }
    if (!any_needs) return;
    if (!n.op->has_gradient)
      return out_.program.fail(diagnosis_with<refusals::no_gradient_rule>(n.line, n.called_from, 1, 0));
    if (works_on_a_stack(n))
      return out_.program.fail(diagnosis_with<refusals::gradient_of_a_stack>(n.line, n.called_from, 0, 0)
                                   .with_layouts(n.op->label, layout::replicated, layout::replicated));
    out_.called_from = n.called_from;
    // The gradient of a matrix in a GEMM is fp32, even if the matrix was computed in 16 bits.
    rule.set_gradient(n.op->any_gradient_type ? g : in_type(g, out_.type_of(n.outputs[0]).type, n.line));
    n.op->gradient(rule);
    for (auto const& c : rule.contributions()) contribute(n.inputs[c.input], c.gradient.where(), n.line);
    out_.called_from = 0;
  }

  /// Whether any instance of the value has a gradient.
  constexpr bool has_gradient(int value) const {
    for (at const where : {at::current, at::next, at::initial, at::final})
      if (gradient_of({value, where})) return true;
    return false;
  }

  /// Creates and returns the value that carries the gradient of the loop-carried value `carried` from `final` to
  /// `initial`. Also appends the node that writes the `final` of the new value.
  constexpr int add_carried_gradient(int carried) {
    auto const info = out_.program.values[carried];
    int const gradient = out_.new_value({info.type, info.shape}, role::activation, info.line);
    out_.program.values[gradient].loop_carried_axis = info.loop_carried_axis;
    ref const final{carried, at::final}, to{gradient, at::final};
    if (ref const g = gradient_of(final)) copy_gradient(g, to, info.line);
    else out_.call<op::constant_like>({final}, {to}, {.value = 0}, info.line);
    return gradient;
  }

  /// Appends the backward loop of a forward loop. If the forward loop carries a value, like the loop of a repeat, the
  /// backward loop is reversed and carries the gradient of the value. Appends nothing if no value that the forward loop
  /// writes has a gradient, or if the loop carries no value and no call in it passes on a gradient. Refused: a forward
  /// loop that carries two values with gradients, and a body that ignores the value that its loop carries.
  constexpr void reverse_loop(int loop, int end) {
    int const axis = out_.program.nodes[loop].axis;
    int carried = -1;
    bool any_gradient = false;
    for (int i = loop + 1; i < end; ++i)
      for (auto const& output : out_.program.nodes[i].outputs) {
        bool const contributes = !is_compute_copy(output) && has_gradient(output.value);
        any_gradient = any_gradient || contributes;
        if (out_.program.values[output.value].loop_carried_axis != axis || (carried >= 0 && !contributes)) continue;
        carried = output.value;
      }
    if (!any_gradient) return;
    if (carried < 0) {
      int const first = out_.program.nodes.size();
      out_.open(axis, false);
      reverse(loop + 1, end);
      out_.close();
      // No call of the loop passes on a gradient.
      if (out_.program.nodes.size() == first + 2) out_.program.nodes.count = first;
      return;
    }
    int const line = out_.program.values[carried].line;
    int const carried_gradient = add_carried_gradient(carried);
    out_.open(axis, true);
    contribute({carried, at::next}, {carried_gradient, at::next}, line);
    reverse(loop + 1, end);
    for (int i = loop + 1; i < end; ++i)
      for (auto const& output : out_.program.nodes[i].outputs)
        if (output.value != carried && out_.program.values[output.value].loop_carried_axis == axis &&
            has_gradient(output.value))
          out_.program.fail(diagnosis_with<refusals::loop_carries_two_values>(line, 0, 1, 2));
    ref const gradient_of_current = gradient_of({carried, at::current});
    if (gradient_of_current) copy_gradient(gradient_of_current, {carried_gradient, at::current}, line);
    else out_.program.fail(diagnosis_with<refusals::repeat_ignores_its_input>(line, 0, 1, 0));
    out_.close();
    contribute({carried, at::initial}, {carried_gradient, at::initial}, line);
  }

  builder out_;
  bool scale_loss_;         // whether the backward pass starts with the loss scale instead of 1
  trained_values trained_;  // of the program, before the backward pass
  ref gradient_[keys]{};    // sum of the gradients so far, for references without a buffer
  ref buffer_[keys]{};      // accumulating buffers, for parameters and captured values
  bool is_written_[keys]{}; // whether a node writes the buffer
};

} // namespace detail

/// Adds the backward pass (reverse-mode automatic differentiation). A parameter's gradient is an accumulating buffer
/// with the parameter's axes: the first write of a step overwrites it, so nothing needs zeroing, and all later writes
/// add to it. Tied weights, weights shared over iterations, and gradient accumulation need no special rule.
/// `scale_loss`: the backward pass starts with the setting "loss_scale" instead of 1, so that all gradients are
/// multiplied by this setting (Micikevicius et al. 2018, section 3.2). Refused: an op without a gradient rule between a
/// trained parameter and the loss, a gradient of an output other than output 0, a call on a stack of tensors, a
/// gradient rule that adds too many terms (`backward::add`), a gradient whose shape differs from the shape of its
/// value, a repeat that ignores its input, a loop that carries two values with gradients, a trained parameter that does
/// not reach the loss, and a program from which a policy's pass has removed the loop over micro-batches. `p` must have
/// the results "logits" and "loss".
constexpr program differentiate(program const& p, bool scale_loss = false) {
  if (!p.failure.ok()) return p;
  return detail::differentiation(p, scale_loss).run(p);
}

} // namespace constrain
