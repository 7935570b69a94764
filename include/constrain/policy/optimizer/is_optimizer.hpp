#pragma once

#include "constrain/base/units.hpp"
#include "constrain/op/update/update_rule.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether an optimizer has a state type. The type is empty if the optimizer stores nothing.
template <class type> concept has_state = requires { typename type::template state<float>; };

/// Whether kernels can call the optimizer's `update`. The concept checks a call, since nvcc cannot take the address of
/// a function template in a concept.
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
/// (program/role.hpp). An optimizer that wraps another optimizer has a member type `base`, the wrapped optimizer. If
/// the wrapper's `hyper` has a field `base` of the wrapped optimizer's type `hyper`, the trainer treats the fields of
/// `base` in the same way. Optional members:
///
///     static constexpr char const* name = "lion";                // in saved runs and prints; default: the type's name
///     static constexpr char const* state_names[] = {"exp_avg"};  // of the state's fields, in saved runs and prints
///     static constexpr bool state_signed[] = {true};             // whether each field may be negative; default: true.
///                                                                // false makes `quantized` more precise
///     static void check(hyper const&);                           // throws `error` if a value is outside its range;
///                                                                // the trainer's constructor calls `check`
///     template <class real> static prepared<real> prepare(hyper const&, optimizer_step); // on the host, once a step;
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

/// The base class of an optimizer that wraps a type without hyperparameters. With this base class, the compiler reports
/// only the error of `base_fits`.
struct wraps_no_optimizer {
  static constexpr bool base_fits = false;
  static constexpr char const* name = "an optimizer that wraps another type";
  struct hyper {};
  static constexpr void update(update_rule&) {}
};

} // namespace detail

} // namespace constrain
