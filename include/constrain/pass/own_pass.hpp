#pragma once

#include "constrain/pass/for_each_gradient.hpp"
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

/// Whether the policy's pass runs after the library's pass `at`. If the policy has `after` but no valid `pass`, returns
/// true for `built`.
template <class policy, pass_name at> constexpr bool follows() {
  if constexpr (has_own_pass<policy>) return policy::after == at;
  else return has_after<policy> && at == pass_name::built; // `run_own_pass` refuses the program
}

/// Runs the policy's pass, or refuses the program if the policy has no valid pass.
template <class policy> constexpr program run_own_pass(program p) {
  if (!p.failure.ok()) return p;
  if constexpr (has_own_pass<policy>) return policy::pass(p, policy::value);
  p.fail(diagnosis_with<refusals::own_pass_is_missing>());
  return p;
}

/// Whether the policies' passes after `at` are constant expressions. `passes`: the `own_passes` of the policies.
template <class passes, pass_name at, program const& before> concept constant_passes = requires {
  typename std::bool_constant<(static_cast<void>(passes::template run<at>(before)), true)>;
};

} // namespace detail

/// Runs the passes of policies. `list`: the chosen policies, in the order of their slots.
template <class list> struct own_passes;
template <class... policies> struct own_passes<policy_list<policies...>> {
  /// Whether any of these policies has a pass that follows the library's pass `at`.
  template <pass_name at> static constexpr bool follow = (detail::follows<policies, at>() || ...);

  /// The program `p` after the policies' passes that follow `at`, in the order of the slots.
  template <pass_name at> static constexpr program run(program p) {
    for_each<at>([&]<class policy>(std::type_identity<policy>) { p = detail::run_own_pass<policy>(p); });
    return p;
  }

  /// Runs the policies' passes that follow the library's pass `at`. `before`: the result of `at`, with static storage.
  /// If no policy's pass follows `at`, returns a reference to `before` itself, which saves the compiler a copy.
  /// Refused: a pass that is invalid or not a constant expression.
  template <pass_name at, program const& before> static constexpr decltype(auto) after() {
    if constexpr (!follow<at>) return (before);
    else if constexpr (detail::constant_passes<own_passes, at, before>) return run<at>(before);
    else {
      program p = before;
      p.fail(diagnosis_with<refusals::own_pass_is_not_constant>());
      return p;
    }
  }

  /// Calls f(name, program) with the result of the library's pass `at`, then with the result of each policy's pass that
  /// follows `at`. `name`: the name of the library's pass, then of each policy; the C string is valid only during the
  /// call. `before`: the result of `at`.
  template <pass_name at, class function> static void report(function const& f, program const& before) {
    f(name_of(at), before);
    program p = before;
    for_each<at>([&]<class policy>(std::type_identity<policy>) {
      p = detail::run_own_pass<policy>(p);
      f(policy_name<policy>().c_str(), p);
    });
  }

private:
  template <pass_name at, class function> static constexpr void for_each(function const& f) {
    auto const one = [&]<class policy>(std::type_identity<policy> each) {
      if constexpr (detail::follows<policy, at>()) f(each);
    };
    (one(std::type_identity<policies>{}), ...);
  }
};

/// Runs the policies' passes that follow the library's pass `at`. `before`: the result of `at`, with static storage.
/// If no policy's pass follows `at`, returns a reference to `before` itself, which saves the compiler a copy. Refused:
/// a pass that is invalid or not a constant expression.
template <class policies, pass_name at, program const& before> constexpr decltype(auto) with_policy_passes() {
  return own_passes<typename policies::in_order>::template after<at, before>();
}

/// Calls f(name, program) with the result of the library's pass `at` and of each policy's pass that follows `at`.
/// `name` and `before`: as in `own_passes::report`.
template <class policies, pass_name at, class function>
void report_policy_passes(function const& f, program const& before) {
  own_passes<typename policies::in_order>::template report<at>(f, before);
}

} // namespace constrain
