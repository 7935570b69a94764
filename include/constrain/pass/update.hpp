#pragma once

#include "constrain/op/gradient_norm/gradient_norm.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/program/setting.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The indices of the values that hold the gradients of trained parameters.
constexpr fixed_vector<int, program::maximum_values> gradients_of(program const& p) {
  fixed_vector<int, program::maximum_values> gradients;
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient) gradients.push_back(v);
  return gradients;
}

/// Refuses an optimizer that is not element-wise if it reads a tensor of which each rank has a part. A rule is taken
/// for element-wise if it adds element-wise calls to another optimizer (`base`): another rule may depend on the shape.
/// `first`: the first node of the update.
template <class optimizer> constexpr void check_parts(program& p, int first) {
  if (p.tensor_ranks == 1) return;
  constexpr bool may_be_elementwise = !has_update_rule<optimizer> || requires { typename optimizer::base; };
  for (int i = first; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (n.kind != node_kind::call) continue;
    auto const check = [&](int v, bool by_element) {
      auto const& info = p.values[v];
      if (info.belongs_to < 0 || !p.is_divided(v)) return;
      auto const& parameter = p.values[info.belongs_to];
      if (!may_be_elementwise || !by_element || info.shape != parameter.shape)
        p.fail(diagnosis_with<refusals::divided_tensor_is_read>(parameter.line)
                   .with_layouts(n.op->label, layout::divided, layout::replicated));
    };
    auto const& rule = n.op->layouts.inputs;
    for (int k = 0; k < n.inputs.size(); ++k) check(n.inputs[k].value, ((rule.elements | rule.unread) >> k & 1u) != 0);
    for (auto const& output : n.outputs) check(output.value, true);
  }
}

/// Appends the sum of squares of each gradient, and the clip coefficient from all of them.
constexpr void emit_clipping(builder& out, fixed_vector<int, program::maximum_values> const& gradients) {
  auto& program = out.program;
  value_info squares;
  squares.type = dtype::f64;
  squares.role = role::result;
  squares.shape = shape(gradients.size());
  squares.accumulates = true; // each call writes one element
  ref const gradient_squares{program.add_value(squares), at::current};
  program.set_result("gradient_squares", gradient_squares);
  for (int i = 0; i < gradients.size(); ++i)
    out.call<op::gradient_norm_squared>({{gradients[i], at::current}}, {gradient_squares},
                                        {.index = i, .gradients = gradients.size()});
  ref const maximum = setting_of(value{out, gradient_squares}, clip_norm_setting).where();
  ref const clip_coefficient =
      (program.loss_scale ? out.call<op::clip_coefficient>({gradient_squares, maximum, program.loss_scale})
                          : out.call<op::clip_coefficient>({gradient_squares, maximum}))
          .outputs[0];
  program.set_result("clip_coefficient", clip_coefficient);
  program.values[clip_coefficient.value].role = role::result;
}

/// Appends the update of the parameter that `gradient` belongs to. A rule's nodes are in loops over the parameter's
/// axes; one call of an element-wise update works on all iterations of a repeat.
template <class optimizer> constexpr void emit_update(builder& out, int gradient, ref hyper) {
  update_rule rule(out, gradient, out.program.result("clip_coefficient"), hyper);
  auto const axes = has_update_rule<optimizer> ? out.program.values[gradient].axes : axis_list();
  int const opened = out.open_all(axes);
  op::update_by<optimizer>(rule);
  out.close(opened);
}

} // namespace detail

/// Appends the optimizer step, which runs once per batch: the norm of all gradients, the clip coefficient (Pascanu et
/// al. 2013) and the update of every trained parameter. One call of an element-wise update works on all iterations
/// of a stacked parameter. Refused: a program without trained parameters.
template <class optimizer> constexpr program update(program const& p) {
  if (!p.failure.ok()) return p;
  builder out;
  out.program = p;
  auto& program = out.program;
  for (auto const& n : p.nodes) out.random_keys = n.random_key > out.random_keys ? n.random_key : out.random_keys;

  auto const gradients = detail::gradients_of(program);
  if (gradients.empty()) {
    program.fail(diagnosis_with<refusals::nothing_is_trained>());
    return program;
  }
  detail::emit_clipping(out, gradients);

  value_info hyper_info;
  hyper_info.type = dtype::u8;
  hyper_info.role = role::hyperparameters;
  bool const wide = program.values[gradients[0]].type == dtype::f64;
  hyper_info.shape = shape(static_cast<std::int64_t>(wide ? sizeof(op::step_hyperparameters<optimizer, double>)
                                                          : sizeof(op::step_hyperparameters<optimizer, float>)));
  ref const hyper{program.add_value(hyper_info), at::current};

  int const first = program.nodes.size();
  for (int g : gradients) detail::emit_update<optimizer>(out, g, hyper);
  detail::check_parts<optimizer>(program, first);
  return program;
}

} // namespace constrain
