#pragma once

#include "constrain/op/clear_unused/clear_unused.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"
#include "constrain/op/tensor_scale/tensor_scale.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/pass/node_before_update.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/pass/working_copy.hpp"
#include "constrain/policy/optimizer/in_backward.hpp"
#include "constrain/program/setting.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Indices of the values that hold the gradients of trained parameters.
using gradient_list = fixed_vector<int, program::maximum_values>;

constexpr gradient_list gradients_of(program const& p) {
  gradient_list gradients;
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient) gradients.push_back(v);
  return gradients;
}

/// Refuses an optimizer that is not element-wise if it accesses a tensor that is divided over ranks: the parameter, its
/// gradient, state or working copy, or the result of an element-wise call on such a tensor. An update rule can be
/// element-wise only if it adds element-wise calls to the calls of another optimizer, `base`; any other rule may depend
/// on the shape. `first`: the index of the first node of the update of `parameter`, which ends with the program's last
/// node.
template <class optimizer> constexpr void refuse_divided_operands(program& p, int parameter, int first) {
  if (!p.is_divided(parameter)) return;
  constexpr bool may_be_elementwise = !has_update_rule<optimizer> || requires { typename optimizer::base; };
  fixed_vector<int, program::maximum_values> results; // of element-wise calls on divided values
  auto const is_divided = [&](int v) { return p.is_divided(v) || results.contains(v); };
  for (int i = first; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (n.kind != node_kind::call) continue;
    auto const& rule = n.op->layouts;
    auto const check = [&](int v, bool by_element) {
      bool const is_range = by_element && p.values[v].shape == p.values[parameter].shape;
      if (is_divided(v) && !(may_be_elementwise && is_range))
        p.fail(diagnosis_with<refusals::divided_tensor_is_read>(p.values[parameter].line)
                   .with_layouts(n.op->label, layout::divided, layout::replicated));
    };
    bool reads_range = false;
    for (int k = 0; k < n.inputs.size(); ++k) {
      int const v = n.inputs[k].value;
      check(v, ((rule.inputs.elements | rule.inputs.unread) >> k & 1u) != 0);
      reads_range = reads_range || ((rule.inputs.elements >> k & 1u) != 0 && is_divided(v));
    }
    for (auto const& output : n.outputs) {
      if (reads_range && !is_divided(output.value)) results.push_back(output.value);
      check(output.value, rule.by_elements());
    }
  }
}

/// Adds the value that holds the squared norms of all gradients. `gradients`: their number.
constexpr ref add_squares(program& p, int gradients) {
  value_info squares;
  squares.type = dtype::f64;
  squares.role = role::result;
  squares.shape = shape(gradients);
  squares.accumulates = true; // each call writes one element
  ref const added{p.add_value(squares), at::current};
  p.set_result("gradient_squares", added);
  return added;
}

/// Makes the output of `n`, a call to op::clip_coefficient, a result of the program. Returns the output.
constexpr ref as_result(program& p, node const& n) {
  p.set_result("clip_coefficient", n.outputs[0]);
  p.values[n.outputs[0].value].role = role::result;
  return n.outputs[0];
}

/// Appends nodes that compute the squared norm of each gradient and the clip coefficient. Returns [norm, scale], the
/// output of op::clip_coefficient.
constexpr ref emit_clipping(builder& out, gradient_list const& gradients) {
  auto& program = out.program;
  ref const squares = add_squares(program, gradients.size());
  for (int i = 0; i < gradients.size(); ++i)
    out.call<op::gradient_norm_squared>({{gradients[i], at::current}}, {squares},
                                        {.index = i, .gradients = gradients.size()});
  ref const maximum = setting_of(value{out, squares}, clip_norm_setting).where();
  return as_result(program, program.loss_scale ? out.call<op::clip_coefficient>({squares, maximum, program.loss_scale})
                                               : out.call<op::clip_coefficient>({squares, maximum}));
}

/// Adds the value that holds the hyperparameters of a step. `type`: the type of the gradients.
template <class optimizer> constexpr ref add_hyper(program& p, dtype type) {
  value_info hyper;
  hyper.type = dtype::u8;
  hyper.role = role::hyperparameters;
  hyper.shape =
      shape(static_cast<std::int64_t>(type == dtype::f64 ? sizeof(op::step_hyperparameters<optimizer, double>)
                                                         : sizeof(op::step_hyperparameters<optimizer, float>)));
  return {p.add_value(hyper), at::current};
}

/// Appends the update of the parameter that `gradient` belongs to. The nodes of an update rule are in loops over the
/// parameter's axes. For an optimizer without an update rule, one call covers all iterations of a repeat, unless the
/// update needs a working copy of the parameter or is in the backward pass. Unused elements of a divided parameter
/// (op::clear_unused) stay 0, whatever the optimizer does to a weight of 0 with a gradient of 0. `index`: the index of
/// the gradient among all gradients. `norm_and_scale` and `hyper`: the results of `update_rule::scale` and
/// `update_rule::hyper`.
template <class optimizer>
constexpr void emit_update(builder& out, int gradient, int index, ref norm_and_scale, ref hyper) {
  update_rule rule(out, gradient, norm_and_scale, hyper, op::hyper_layout_of<optimizer>());
  int const parameter = out.program.values[gradient].belongs_to;
  bool const is_narrow_weight = is_narrow(out.program.values[parameter].type);
  bool const by_tensor = has_update_rule<optimizer> || is_narrow_weight;
  int const opened = out.open_all(by_tensor ? out.program.values[gradient].axes : axis_list());
  int const first = out.program.nodes.size();
  if (is_narrow_weight) {
    // For an optimizer without a `state_type`, the type is u8: rounding is stochastic, without a compensation state.
    working_copy copy(out, rule, parameter, op::state_type<optimizer>(dtype::u8));
    op::update_by<optimizer>(rule);
    copy.store(index);
  } else {
    op::update_by<optimizer>(rule);
  }
  refuse_divided_operands<optimizer>(out.program, parameter, first);
  op::append_clear_unused(out, {parameter, at::current}, out.program.values[parameter].line);
  out.close(opened);
}

/// Appends the nodes that compute the clip coefficient and update all trained parameters.
template <class optimizer> constexpr void update_at_the_end(builder& out, gradient_list const& gradients) {
  ref const norm_and_scale = emit_clipping(out, gradients);
  ref const hyper = add_hyper<optimizer>(out.program, out.program.values[gradients[0]].type);
  for (int k = 0; k < gradients.size(); ++k) emit_update<optimizer>(out, gradients[k], k, norm_and_scale, hyper);
}

/// Replaces the nodes of `out` with the nodes of `p`, and inserts the update of each parameter after the parameter's
/// gradient is complete and after the last read of the parameter (`node_before_update`, which explains
/// `recomputes_loops`). Each update has a separate scale (op::tensor_scale), without clipping; the call to
/// op::clip_coefficient at the end only computes the norm of all gradients.
template <class optimizer>
constexpr void update_in_backward(builder& out, program const& p, gradient_list const& gradients,
                                  bool recomputes_loops) {
  auto& program = out.program;
  nest const loops(p);
  fixed_vector<int, program::maximum_values> update_nodes;
  for (int g : gradients) {
    update_nodes.push_back(node_before_update(p, loops, g, recomputes_loops));
    program.values[g].ends_with_update = true;
  }
  ref const squares = add_squares(program, gradients.size());
  ref const hyper = add_hyper<optimizer>(program, program.values[gradients[0]].type);
  program.nodes.count = 0;
  rewrite_nodes(out, p, 0, p.nodes.size(), [&](builder&, node const& n, int i) {
    program.add_node(n);
    if (n.kind == node_kind::loop) return;
    for (int k = 0; k < gradients.size(); ++k) {
      if (update_nodes[k] != i) continue;
      int const opened = out.open_all(program.values[gradients[k]].axes);
      ref const squared = out.call<op::gradient_norm_squared>({{gradients[k], at::current}}).outputs[0];
      ref const norm_and_scale =
          out.call<op::tensor_scale>({squared}, {{}, squares}, {.index = k, .gradients = gradients.size()}).outputs[0];
      emit_update<optimizer>(out, gradients[k], k, norm_and_scale, hyper);
      out.close(opened);
    }
  });
  as_result(program, out.call<op::clip_coefficient>({squares}));
}

} // namespace detail

/// Appends the optimizer step, which runs once per batch: the norm of all gradients, the clip coefficient (Pascanu et
/// al. 2013) and the update of every trained parameter. An optimizer without an update rule, such as adamw, updates all
/// tensors of a stacked parameter in one call, unless they are stored in 16 bits; an update rule updates one tensor at
/// a time. With `optimizer::in_backward`, the updates are in the backward pass instead. Refused: a program without
/// trained parameters, and an optimizer that is not element-wise if it accesses a tensor that is divided over ranks.
/// `recomputes_loops`: whether checkpoint::every or checkpoint::sqrt applies to the result (`recompute`).
template <class optimizer> constexpr program update(program const& p, bool recomputes_loops = false) {
  if (!p.failure.ok()) return p;
  builder out;
  out.program = p;
  auto& program = out.program;
  // Calls that passes have removed do not change the random numbers of update rules.
  program.random_keys = 0;
  for (auto const& n : p.nodes)
    program.random_keys = n.random_key > program.random_keys ? n.random_key : program.random_keys;

  auto const gradients = detail::gradients_of(program);
  if (gradients.empty()) {
    program.fail(diagnosis_with<refusals::nothing_is_trained>());
    return program;
  }
  if constexpr (updates_in_backward<optimizer>)
    detail::update_in_backward<optimizer>(out, p, gradients, recomputes_loops);
  else detail::update_at_the_end<optimizer>(out, gradients);
  return program;
}

} // namespace constrain
