#pragma once

#include "constrain/base/fields.hpp"
#include "constrain/policy/optimizer/adafactor.hpp"
#include "constrain/policy/optimizer/adam.hpp"
#include "constrain/policy/optimizer/adamw.hpp"
#include "constrain/policy/optimizer/averaged.hpp"
#include "constrain/policy/optimizer/by_role.hpp"
#include "constrain/policy/optimizer/in_backward.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"
#include "constrain/policy/optimizer/lion.hpp"
#include "constrain/policy/optimizer/muon.hpp"
#include "constrain/policy/optimizer/quantized.hpp"
#include "constrain/policy/optimizer/sgd.hpp"
#include "constrain/policy/optimizer/states_in.hpp"
#include "constrain/policy/rule.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether the optimizer can wrap its `base`, if it has one.
template <class optimizer> constexpr bool base_fits() {
  if constexpr (requires { optimizer::base_fits; }) return optimizer::base_fits;
  else return true;
}

/// Whether the optimizer has the `state_type` bf16 or fp32, or has none.
template <class optimizer> constexpr bool state_type_fits() {
  if constexpr (requires { optimizer::state_type; })
    return optimizer::state_type == dtype::bf16 || optimizer::state_type == dtype::f32;
  else return true;
}

/// Whether the optimizer's `state` has at most four fields, all of type `real`. True for an optimizer without a
/// `state`, and for a state that is not an aggregate, whose fields are not known.
template <class optimizer> constexpr bool state_fits() {
  if constexpr (has_state<optimizer>) {
    using state = typename optimizer::template state<float>;
    return std::is_empty_v<state> || !std::is_aggregate_v<state> ||
           (sizeof(state) <= op::maximum_state_fields * sizeof(float) && is_made_of<state, float> &&
            is_made_of<typename optimizer::template state<double>, double>);
  } else return true;
}

/// Whether the optimizer's number of Newton-Schulz steps (muon) is from 1 to 99. True for an optimizer without the
/// member `newton_schulz_steps`.
template <class optimizer> constexpr bool steps_fit() {
  if constexpr (requires { optimizer::newton_schulz_steps; })
    return optimizer::newton_schulz_steps >= 1 && optimizer::newton_schulz_steps <= 99;
  else return true;
}

/// Whether the library's wrappers in `optimizer`, except `in_backward`, are in the order of `nesting_level`, each at
/// most once. Other optimizers may be between them.
template <class optimizer> constexpr bool nests() {
  return holds_throughout<optimizer>([]<class outer>(std::type_identity<outer>) {
    return holds_inside<outer>([]<class inner>(std::type_identity<inner>) { return may_be_inside<inner, outer>(); });
  });
}

} // namespace detail

namespace slot_of {

/// The slot of the optimizer; is_slot.hpp explains the members of a slot. Every type with a member type `hyper` is a
/// policy of this slot, unless it is a policy of another slot.
struct optimizer {
  bool has_state = true;    // false: the optimizer, or one inside it, has neither an update rule nor `state`
  bool has_update = true;   // false: the optimizer, or one inside it, has `state` but no `update` for kernels to call
  bool base_fits = true;    // false: the optimizer, or one inside it, cannot wrap its `base`
  bool type_fits = true;    // false: the optimizer, or one inside it, has a `state_type` other than bf16 and fp32
  bool nests = true;        // false: a library wrapper other than in_backward is given twice or in the wrong order
  bool steps_fit = true;    // false: the optimizer, or one inside it, has a wrong number of Newton-Schulz steps
  bool in_backward = false; // whether parameters are updated in the backward pass
  bool is_outermost = true; // false: the optimizer wraps an optimizer that updates in the backward pass
  bool state_fits = true;   // false: the optimizer, or one inside it, has a `state` with wrong fields
  friend constexpr bool operator==(optimizer const&, optimizer const&) = default;

  /// The slot's value for an optimizer. If the optimizer has no `state`, `has_update` is true, so that only one error
  /// is reported.
  template <class policy> static constexpr optimizer of() {
    optimizer o{.in_backward = updates_in_backward<policy>, .is_outermost = !detail::has_in_backward_inside<policy>()};
    o.base_fits = detail::holds_throughout<policy>(
        []<class nested>(std::type_identity<nested>) { return detail::base_fits<nested>(); });
    o.state_fits = detail::holds_throughout<policy>(
        []<class nested>(std::type_identity<nested>) { return detail::state_fits<nested>(); });
    o.type_fits = detail::holds_throughout<policy>(
        []<class nested>(std::type_identity<nested>) { return detail::state_type_fits<nested>(); });
    o.nests = detail::nests<policy>();
    o.steps_fit = detail::holds_throughout<policy>(
        []<class nested>(std::type_identity<nested>) { return detail::steps_fit<nested>(); });
    using innermost = detail::innermost<policy>;
    if constexpr (!requires { innermost::base_fits; } && !has_update_rule<innermost>) {
      o.has_state = constrain::has_state<innermost>;
      o.has_update = !o.has_state || constrain::has_update<innermost>;
    }
    return o;
  }
  template <class...> using otherwise = constrain::optimizer::adamw;
  template <class policy> struct named { using optimizer = policy; };
  using examples =
      policy_list<constrain::optimizer::adamw, constrain::optimizer::adam, constrain::optimizer::sgd,
                  constrain::optimizer::momentum, constrain::optimizer::nesterov, constrain::optimizer::adafactor,
                  constrain::optimizer::adafactor_relative_step, constrain::optimizer::adafactor_with_momentum,
                  constrain::optimizer::states_in<dtype::bf16, constrain::optimizer::adamw>,
                  constrain::optimizer::in_backward<constrain::optimizer::adamw>>;
  static constexpr bool always_named = true;
  static constexpr bool free_on_resume = true; // a resume compares the optimizer's name in a separate field

  CONSTRAIN_RULE(one_optimizer, (said<optimizer> const& o), o.given <= 1,
                 "policies: more than one optimizer is given; keep one, for example optimizer::adamw");
  CONSTRAIN_RULE(optimizer_state, (optimizer const& o), o.has_state,
                 "optimizer: the type, or the one that it wraps, has no `template <class real> struct state`; write "
                 "one, which is empty if the optimizer stores nothing, or write an update rule, `static constexpr void "
                 "update(ct::update_rule&)`");
  CONSTRAIN_RULE(optimizer_state_fields, (optimizer const& o), o.state_fits,
                 "optimizer: `template <class real> struct state` has more than four fields, or a field whose type is "
                 "not `real`; keep at most four values per weight, all of type `real`, including counters");
  CONSTRAIN_RULE(optimizer_update, (optimizer const& o), o.has_update,
                 "optimizer: the type, or the one that it wraps, has no `template <class real> static real update(real "
                 "weight, real gradient, state<real>&, hyper const&, ct::optimizer_step)`; write one, which takes the "
                 "result of `prepare` instead of `hyper` if the type has a `prepare`");
  CONSTRAIN_RULE(optimizer_base, (optimizer const& o), o.base_fits,
                 "optimizer: a wrapper is given a type that it cannot wrap; the O of quantized<O>, states_in<type, O> "
                 "or by_role<O> must be an element-wise optimizer, with `state` and `update`, and the O of any other "
                 "wrapper must be an optimizer, with `hyper`; write for example averaged<quantized<adamw>>");
  CONSTRAIN_RULE(optimizer_state_type, (optimizer const& o), o.type_fits,
                 "optimizer::states_in<type, O>: `type` must be dtype::bf16 or dtype::f32; write for example "
                 "states_in<dtype::bf16, O>");
  CONSTRAIN_RULE(optimizer_nesting, (optimizer const& o), o.nests,
                 "optimizer: a wrapper is given twice or in the wrong order; write each at most once, in the order "
                 "averaged, muon, by_role or quantized, states_in, as in "
                 "averaged<muon<states_in<dtype::bf16, adamw>>>");
  CONSTRAIN_RULE(muon_steps, (optimizer const& o), o.steps_fit,
                 "optimizer::muon<O, steps>: `steps`, the number of Newton-Schulz steps, must be from 1 to 99; write "
                 "for example muon<O, 5>, the default");
  CONSTRAIN_RULE(in_backward_outermost, (optimizer const& o), o.is_outermost,
                 "optimizer::in_backward<O>: another optimizer wraps it; write in_backward outermost, as in "
                 "in_backward<averaged<adamw>>");
  using rules = rule_list<one_optimizer, optimizer_state, optimizer_state_fields, optimizer_update, optimizer_base,
                          optimizer_state_type, optimizer_nesting, muon_steps, in_backward_outermost>;
};

} // namespace slot_of

} // namespace constrain
