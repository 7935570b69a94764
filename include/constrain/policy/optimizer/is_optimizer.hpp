#pragma once

#include "constrain/base/units.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether an optimizer says what it keeps of each weight.
template <class type> concept has_state = requires { typename type::template state<float>; };

/// Whether the kernels can call the optimizer's `update`. (nvcc does not take the address of a template here.)
template <class type> concept has_update = requires(float weight, typename type::template state<float>& s) {
  type::template update<float>(weight, weight, s, {}, optimizer_step{});
};

/// An element-wise optimizer:
///
///     struct hyper { float learning_rate = 1e-3f, ...; }; // its numbers: trivially copyable, with defaults
///     template <class real> struct state { real ...; };   // what it keeps of a weight: four reals at most
///     template <class real>                                      // the new weight; changes the state
///     static real update(real weight, real gradient, state<real>&, hyper const&, optimizer_step); // CT_HOST_DEVICE
///
/// and it may have
///
///     static constexpr char const* name = "lion";                // else that of the type; stands in saved runs
///     static constexpr char const* state_names[] = {"exp_avg"};  // the fields of its state
///     static void check(hyper const&);                           // throws `error` for a number that cannot be
///     template <class real> static prepared<real> prepare(hyper const&, optimizer_step); // once a step, on the host:
///                                                                // `update` then takes what it returns for `hyper`
template <class type> concept is_optimizer = has_state<type> && has_update<type> && requires {
  typename type::hyper;
  requires std::is_trivially_copyable_v<typename type::hyper> && std::is_default_constructible_v<typename type::hyper>;
};

} // namespace constrain
