#pragma once

#include "constrain/op/gradient_norm/gradient_norm.hpp"
#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The values that hold the gradients of trained parameters.
constexpr fixed_vector<int, program::maximum_values> gradients_of(program const& p) {
  fixed_vector<int, program::maximum_values> gradients;
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient) gradients.push_back(v);
  return gradients;
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
    out.call<op::gradient_norm_squared>({{gradients[i], at::current}}, {gradient_squares}, {{i, gradients.size()}, {}});
  ref const clip_coefficient = out.call<op::clip_coefficient>({gradient_squares}).outputs[0];
  program.set_result("clip_coefficient", clip_coefficient);
  program.values[clip_coefficient.value].role = role::result;
}

/// Appends the update of the parameter that `gradient` belongs to, with its optimizer states as further outputs.
template <class optimizer> constexpr void emit_update(builder& out, int gradient, ref hyper) {
  auto& program = out.program;
  int const parameter = program.values[gradient].belongs_to;
  auto const info = program.values[parameter];
  node n;
  n.attributes = {{decays(info.role) ? 1 : 0}, {}};
  n.inputs.push_back({gradient, at::current});
  n.inputs.push_back(program.result("clip_coefficient"));
  n.inputs.push_back(hyper);
  n.outputs.push_back({parameter, at::current});
  for (int field = 0; field < op::state_fields<optimizer>(); ++field) {
    value_info state;
    state.type = info.type;
    state.role = role::state;
    state.shape = info.shape;
    state.axes = info.axes;
    state.belongs_to = parameter;
    state.field = field;
    program.state_names[field] = op::state_name<optimizer>(field);
    n.outputs.push_back({program.add_value(state), at::current});
  }
  out.append(info_of<op::update<optimizer>>, n);
}

} // namespace detail

/// Appends the optimizer step, which runs once per batch: the norm of all gradients, the clip coefficient (Pascanu et
/// al. 2013) and the update of every trained parameter. A stacked parameter takes one call for all its iterations.
template <class optimizer> constexpr program update(program const& p) {
  if (!p.failure.ok()) return p;
  builder out;
  out.program = p;
  auto& program = out.program;

  auto const gradients = detail::gradients_of(program);
  if (gradients.empty()) {
    program.fail({why::nothing_is_trained});
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

  for (int g : gradients) detail::emit_update<optimizer>(out, g, hyper);
  return program;
}

} // namespace constrain
