#pragma once

#include "constrain/base/units.hpp"
#include "constrain/op/update/update_rule.hpp"

#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether an optimizer has a state type. The type is empty if the optimizer stores nothing.
template <class type> concept has_state = requires { typename type::template state<float>; };

/// Whether kernels can call the optimizer's `update`. The concept checks a call, because nvcc cannot take the address
/// of a function template in a concept.
template <class type> concept has_update = requires(float weight, typename type::template state<float>& s) {
  type::template update<float>(weight, weight, s, {}, optimizer_step{});
};

/// An optimizer. An element-wise optimizer has these members:
///
///     struct hyper { float learning_rate = 1e-3f, ...; };        // hyperparameters: trivially copyable, with defaults
///     template <class real> struct state { real ...; };          // per weight: at most four fields, all of type real
///     template <class real>                                      // returns the new weight; changes the state
///     static real update(real weight, real gradient, state<real>&, hyper const&, optimizer_step); // CT_HOST_DEVICE
///
/// If `hyper` has a field `learning_rate`, the trainer multiplies it by the factors from the schedule and from
/// `scale_learning_rate`. If `hyper` has a field `weight_decay`, the field is 0 for parameters that do not decay
/// (program/role.hpp). The argument `gradient` of `update` is already clipped and without the loss scale. An optimizer
/// that wraps another optimizer has a member type `base`, the wrapped optimizer. The wrapper's `hyper` is the wrapped
/// optimizer's `hyper`, or has a field `base` of this type, whose fields the trainer treats in the same way. Optional
/// members (the names must be UTF-8):
///
///     static constexpr char const* name = "lion";                // in saved runs and output; default: the type's name
///     static constexpr char const* state_names[] = {"exp_avg"};  // of the state's fields, in saved runs and output;
///                                                                // default: state0, state1, ...
///     static constexpr bool state_signed[] = {true};             // whether each field may be negative; default: true.
///                                                                // false makes `quantized` more precise
///     static void check(hyper const&);                           // throws `error` if a value is outside its range;
///                                                                // the trainer's constructor calls `check`
///     template <class real> static prepared<real> prepare(hyper const&, optimizer_step); // on the host, in each step;
///                                                                // `update` gets the result instead of `hyper`
///
/// An optimizer that needs full tensors has `hyper` and an update rule instead of `state` and `update`:
///
///     static constexpr void update(ct::update_rule&); // emits the update of one parameter (op/update/update_rule.hpp)
template <class type>
concept is_optimizer = (has_update_rule<type> || (has_state<type> && has_update<type>)) && requires {
  typename type::hyper;
  requires std::is_trivially_copyable_v<typename type::hyper> && std::is_default_constructible_v<typename type::hyper>;
};

namespace detail {

/// Whether an optimizer can wrap the type, that is, whether the type has hyperparameters.
template <class type> concept can_be_wrapped = requires { typename type::hyper; };

/// Whether `holds` is true for each optimizer inside `optimizer`: for its `base`, for the base of the `base`, and so
/// on. `holds` gets a std::type_identity of an optimizer.
template <class optimizer, class predicate> constexpr bool holds_inside(predicate const& holds) {
  if constexpr (requires { typename optimizer::base; }) {
    using base = typename optimizer::base;
    return holds(std::type_identity<base>{}) && holds_inside<base>(holds);
  } else {
    return true;
  }
}

/// Whether `holds` is true for the optimizer and for each optimizer inside it.
template <class optimizer, class predicate> constexpr bool holds_throughout(predicate const& holds) {
  return holds(std::type_identity<optimizer>{}) && holds_inside<optimizer>(holds);
}

/// The optimizer that must have `state` and `update`, or a rule, as a std::type_identity: `optimizer` itself, or, if it
/// is a wrapper that updates parameters with its `base`, the innermost optimizer of the base. Wrappers with a member
/// `base_fits` check their base themselves.
template <class optimizer> constexpr auto find_innermost() {
  constexpr bool is_checked = requires { optimizer::base_fits; };
  constexpr bool is_wrapper = requires { typename optimizer::base; };
  if constexpr (is_wrapper && has_update_rule<optimizer> && !is_checked)
    return find_innermost<typename optimizer::base>();
  else return std::type_identity<optimizer>{};
}
/// The optimizer that `find_innermost` finds.
template <class optimizer> using innermost = typename decltype(find_innermost<optimizer>())::type;

/// The order in which the library's wrappers must be nested, from the outside. in_backward has a separate rule: it must
/// be outside every other optimizer.
enum class nesting_level : std::uint8_t { averaged, muon, by_role_or_quantized, states_in };

/// The member type `nests_at` of the wrapper `type`: its level. A class that inherits the member counts as `type`, not
/// as a second wrapper; with a member `struct nests_at {};`, it counts as no wrapper.
template <class type, nesting_level type_level> struct nesting { static constexpr nesting_level level = type_level; };

/// Whether the wrapper `inner` may be inside the wrapper `outer`, also with other optimizers between them. True if one
/// of the two is not a wrapper of the library.
template <class inner, class outer> constexpr bool may_be_inside() {
  if constexpr (requires {
                  inner::nests_at::level;
                  outer::nests_at::level;
                })
    return std::is_same_v<typename inner::nests_at, typename outer::nests_at> ||
           inner::nests_at::level > outer::nests_at::level;
  else return true;
}

/// The base class of an optimizer that wraps a type without hyperparameters. With this base class, the compiler reports
/// only the error of the rule `optimizer_base`.
struct wraps_no_optimizer {
  static constexpr bool base_fits = false;
  static constexpr char const* name = "an optimizer that wraps another type";
  struct hyper {};
  static constexpr void update(update_rule&) {}
};

} // namespace detail

} // namespace constrain
