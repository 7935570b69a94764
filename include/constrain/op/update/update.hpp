#pragma once

#include "constrain/op/update/step_hyperparameters.hpp"
#include "constrain/op/update/update_rule.hpp"

#include <iterator>
#include <string_view>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Maximum number of fields in the state of an element-wise optimizer.
inline constexpr int maximum_state_fields = 4;

/// Number of fields of an optimizer's state: the number of values that the optimizer keeps per weight. `update` stores
/// each field as a tensor. Compile-time error: a state that is not trivially copyable, whose size is not a multiple of
/// the size of `real`, or that has more than four fields.
template <class optimizer> constexpr int state_fields() {
  using state = typename optimizer::template state<float>;
  if constexpr (std::is_empty_v<state>) return 0;
  else {
    static_assert(std::is_trivially_copyable_v<state> && sizeof(state) % sizeof(float) == 0,
                  "an optimizer's `template <class real> struct state` must be trivially copyable, and all its fields "
                  "must have the type `real`");
    static_assert(sizeof(state) <= maximum_state_fields * sizeof(float),
                  "an optimizer's `state` has more than four fields; use at most four");
    return static_cast<int>(sizeof(state) / sizeof(float));
  }
}

/// The name of field `i` of an optimizer's state, with i < `state_fields`: `state_names[i]`, or "state0", "state1", ...
/// if the optimizer has no `state_names`. Compile-time error: a `state_names` whose length differs from the number of
/// fields.
template <class optimizer> constexpr std::string_view state_name(int i) {
  if constexpr (requires { optimizer::state_names; }) {
    static_assert(std::size(optimizer::state_names) == state_fields<optimizer>(),
                  "an optimizer's `state_names` and its `state` have different lengths; give each field one name");
    return optimizer::state_names[i];
  } else {
    constexpr std::string_view names[maximum_state_fields] = {"state0", "state1", "state2", "state3"};
    return names[i];
  }
}

/// The dtype in which `update` stores the fields of an optimizer's state: the `state_type` of the optimizer, or of an
/// optimizer that it wraps; `weights`, the type in which the weights are updated, if none has a `state_type`.
template <class optimizer> constexpr dtype state_type(dtype weights) {
  if constexpr (requires { optimizer::state_type; }) return optimizer::state_type;
  else if constexpr (requires { typename optimizer::base; }) return state_type<typename optimizer::base>(weights);
  else return weights;
}

// `update_element` calls user functions. By default, nvcc only warns about a call to a function without CT_HOST_DEVICE
// and compiles a kernel without the call. These pragmas make the warnings errors.
#if defined(__CUDACC__)
#pragma nv_diagnostic push
#pragma nv_diag_error 20011, 20013, 20014, 20015
#endif

/// Updates one weight and the fields of its state, and rounds the fields to their stored type. `hyper`: the result of
/// the optimizer's `prepare`, or its `hyper` if it has no `prepare`. `gradient` is already multiplied by the scale (see
/// `update`).
template <class optimizer, class real, class prepared, class... fields>
CT_HOST_DEVICE inline void update_element(prepared const& hyper, optimizer_step step, real gradient, real& weight,
                                          fields&... field) {
  using state = typename optimizer::template state<real>;
  if constexpr (sizeof...(fields) == 0) {
    state empty_state;
    weight = optimizer::template update<real>(weight, gradient, empty_state, hyper, step);
  } else {
    struct packed {
      real field[sizeof...(fields)];
    };
    auto s = __builtin_bit_cast(state, packed{{static_cast<real>(field)...}});
    weight = optimizer::template update<real>(weight, gradient, s, hyper, step);
    auto const new_state = __builtin_bit_cast(packed, s);
    int i = 0;
    ((field = static_cast<fields>(new_state.field[i++])), ...);
  }
}

#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

/// `result` with the fields of the state of a parameter as further outputs. `gradient`: the gradient of the parameter.
template <class optimizer> constexpr inferred with_states(inferred result, operand_type const& gradient) {
  for (int i = 0; i < state_fields<optimizer>(); ++i)
    result = result.and_also(state_type<optimizer>(gradient.type), gradient.shape);
  return result;
}

/// Options of `update` and `update_and_copy`.
struct update_options {
  bool decays = false;        // whether weight decay applies to the parameter
  dtype copy_as = dtype::f32; // of `update_and_copy`: the type of the copy
};

/// The update of one parameter, element by element: `optimizer::update` computes the new weight and state from the
/// weight, the state and gradient * scale. Inputs: gradient, norm_and_scale [2] (op::clip_coefficient or
/// op::tensor_scale), and `step_hyperparameters` as bytes. Outputs, which are also read: the weight and the fields of
/// the optimizer state. If scale is 0, the outputs keep their values.
template <class optimizer> struct update {
  using options = update_options;
  static constexpr char const* name = "update";
  static constexpr unsigned accumulating = ~0u; // every output is also read
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;
  static constexpr void copying_form(builder& out, node const& n, ref copy); // an `update_and_copy`

  static constexpr inferred infer(operand_types const& in) {
    return with_states<optimizer>(inferred::one(in[0].type, in[0].shape), in[0]);
  }
};

/// `update`, with one more output after the weight: a copy of the new weight, converted to the type `copy_as`. If scale
/// is 0, the copy keeps its values, too. The pass `keep_copies` inserts this op.
template <class optimizer> struct update_and_copy {
  using options = update_options;
  using written_as = update<optimizer>;
  static constexpr char const* name = "update_and_copy";
  static constexpr unsigned accumulating = ~0u; // the weight and the state are also read
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return with_states<optimizer>(inferred::one(in[0].type, in[0].shape).and_also(o.copy_as, in[0].shape), in[0]);
  }
};

template <class optimizer> constexpr void update<optimizer>::copying_form(builder& out, node const& n, ref copy) {
  auto both = n;
  both.attributes = pack(update_options{unpack<update_options>(n.attributes).decays, out.type_of(copy).type});
  both.outputs.count = 0;
  for (int j = 0; j < n.outputs.size(); ++j) {
    out.add_output(both, n.outputs[j]);
    if (j == 0) out.add_output(both, copy);
  }
  out.append(info_of<update_and_copy<optimizer>>, both);
}

/// Whether `op` is the `update` or the `update_and_copy` of any optimizer.
constexpr bool is_update(op_label const& op) {
  return std::string_view(op.name) == "update" || std::string_view(op.name) == "update_and_copy";
}

/// Appends the update of a parameter by an optimizer: the nodes of the optimizer's rule, or, if the optimizer has no
/// rule, one element-wise update. A rule is called once for each part of the parameter. The rule of an optimizer with a
/// base optimizer is called only once, for the full parameter, because the base may be element-wise. Such a rule calls
/// `update_by` for each parameter that its base updates. `optimizer`: the optimizer whose rule makes the call, its
/// base, the base of this base, and so on, or an optimizer with the same layout of hyperparameters (`hyper_layout_of`)
/// as one of them. Refused: any other optimizer, because it would read other bytes as its hyperparameters, and an
/// optimizer without a rule, if `rule` refers to a part of a parameter.
template <class optimizer> constexpr void update_by(update_rule& rule) {
  rule.needs_hyper(hyper_layout_of<optimizer>());
  if constexpr (has_update_rule<optimizer> && requires { typename optimizer::base; }) optimizer::update(rule);
  else if constexpr (has_update_rule<optimizer>) rule.for_each_part([](update_rule& part) { optimizer::update(part); });
  else {
    rule.needs_full_parameter();
    node n;
    n.attributes = pack(update_options{.decays = has_weight_decay<typename optimizer::hyper>() && rule.decays()});
    n.inputs.push_back(rule.gradient().where());
    n.inputs.push_back(rule.scale().where());
    n.inputs.push_back(rule.hyper().where());
    n.outputs.push_back(rule.parameter().where());
    for (int field = 0; field < state_fields<optimizer>(); ++field)
      n.outputs.push_back(
          rule.state(state_name<optimizer>(field), rule.shape(), state_type<optimizer>(rule.type())).where());
    rule.owner().append(info_of<update<optimizer>>, n);
  }
}

} // namespace constrain::op
