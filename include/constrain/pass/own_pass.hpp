#pragma once

#include "constrain/pass/for_each_gradient.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/policy/pass_name.hpp"
#include "constrain/policy/policy_name.hpp"
#include "constrain/program/program.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A policy with its own pass. The constant `after` names the library's pass that the policy's pass follows; `static
/// constexpr program pass(program const&, slot const&)` is the policy's pass.
template <class policy> concept has_own_pass = requires(program const& p) {
  requires std::is_same_v<std::remove_cv_t<decltype(policy::after)>, pass_name>;
  requires std::is_same_v<decltype(policy::pass(p, policy::value)), program>;
};

namespace detail {

template <class policy> concept has_after = requires { policy::after; };

/// Whether the policy has a function `pass`, valid or not.
template <class policy> constexpr bool has_pass() {
  if constexpr (requires { &policy::pass; }) return true;
  else return requires(program const& p) {
      policy::pass(p, policy::value);
    };
}

/// Whether the policy's pass runs after the library's pass `predecessor`. If the policy has `after` or `pass`, but not
/// both, or one of them is invalid, returns true for `built`.
template <class policy, pass_name predecessor> constexpr bool follows() {
  if constexpr (has_own_pass<policy>) return policy::after == predecessor;
  else if constexpr (predecessor != pass_name::built) return false;
  else return has_after<policy> || has_pass<policy>(); // `run_own_pass` refuses the program
}

/// Runs the policy's pass; returns a refused `p` unchanged. Refused: a policy without a valid pass, and a pass whose
/// result has loops that do not nest or nest too deeply. The refused program keeps the nodes of `p`, because the
/// library's passes cannot read such loops.
template <class policy> constexpr program run_own_pass(program p) {
  if (!p.failure.ok()) return p;
  if constexpr (has_own_pass<policy>) {
    program out = policy::pass(p, policy::value);
    auto const error = check_loops(out);
    if (error.ok()) return out;
    p.fail(out.failure.ok() ? error : out.failure);
  } else {
    p.fail(has_after<policy> ? diagnosis_with<refusals::own_pass_is_missing>()
                             : diagnosis_with<refusals::own_pass_has_no_predecessor>());
  }
  return p;
}

/// Whether the policies' passes after `predecessor` are constant expressions. `passes`: the `own_passes` of the
/// policies.
template <class passes, pass_name predecessor, program const& before> concept constant_passes = requires {
  typename std::bool_constant<(static_cast<void>(passes::template run<predecessor>(before)), true)>;
};

} // namespace detail

/// Runs the passes of policies. `list`: the chosen policies, in the order of their slots.
template <class list> struct own_passes;
template <class... policies> struct own_passes<policy_list<policies...>> {
  /// Whether any of these policies has a pass that follows the library's pass `predecessor`. Invalid passes follow
  /// `built`.
  template <pass_name predecessor> static constexpr bool follow = (detail::follows<policies, predecessor>() || ...);

  /// The program `p` after the policies' passes that follow `predecessor`, in the order of the slots.
  template <pass_name predecessor> static constexpr program run(program p) {
    for_each<predecessor>([&]<class policy>(std::type_identity<policy>) { p = detail::run_own_pass<policy>(p); });
    return p;
  }

  /// Runs the policies' passes that follow the library's pass `predecessor`. `before`: the result of `predecessor`,
  /// with static storage. If no policy's pass follows `predecessor`, returns a reference to `before` itself, which
  /// saves the compiler a copy. Refused: a pass that is invalid or not a constant expression.
  template <pass_name predecessor, program const& before> static constexpr decltype(auto) after() {
    if constexpr (!follow<predecessor>) return (before);
    else if constexpr (detail::constant_passes<own_passes, predecessor, before>) return run<predecessor>(before);
    else {
      program p = before;
      p.fail(diagnosis_with<refusals::own_pass_is_not_constant>());
      return p;
    }
  }

  /// Calls f(name, program) with the result of the library's pass `predecessor`, then with the result of each policy's
  /// pass that follows `predecessor`. `name`: the name of the library's pass, then of each policy; the C string is
  /// valid only during the call. `before`: the result of `predecessor`.
  template <pass_name predecessor, class function> static void report(function const& f, program const& before) {
    f(name_of(predecessor), before);
    program p = before;
    for_each<predecessor>([&]<class policy>(std::type_identity<policy>) {
      p = detail::run_own_pass<policy>(p);
      f(policy_name<policy>().c_str(), p);
    });
  }

private:
  template <pass_name predecessor, class function> static constexpr void for_each(function const& f) {
    auto const run_if_follows = [&]<class policy>(std::type_identity<policy> policy_type) {
      if constexpr (detail::follows<policy, predecessor>()) f(policy_type);
    };
    (run_if_follows(std::type_identity<policies>{}), ...);
  }
};

/// Runs the policies' passes that follow the library's pass `predecessor`. `before`: the result of `predecessor`, with
/// static storage. If no policy's pass follows `predecessor`, returns a reference to `before` itself, which saves the
/// compiler a copy. Refused: a pass that is invalid or not a constant expression.
template <class policies, pass_name predecessor, program const& before> constexpr decltype(auto) with_policy_passes() {
  return own_passes<typename policies::in_order>::template after<predecessor, before>();
}

/// Calls f(name, program) with the result of the library's pass `predecessor` and of each policy's pass that follows
/// `predecessor`. `name` and `before`: as in `own_passes::report`.
template <class policies, pass_name predecessor, class function>
void report_policy_passes(function const& f, program const& before) {
  own_passes<typename policies::in_order>::template report<predecessor>(f, before);
}

} // namespace constrain
