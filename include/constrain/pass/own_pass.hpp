#pragma once

#include "constrain/policy/pass_name.hpp"
#include "constrain/policy/policy_name.hpp"
#include "constrain/program/program.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether a policy brings a pass of its own: `after`, the pass of the library that it follows, and
/// `static constexpr program pass(program const&, slot const&)`.
template <class policy> concept has_own_pass = requires(program const& p) {
  requires std::is_same_v<std::remove_cv_t<decltype(policy::after)>, pass_name>;
  requires std::is_same_v<decltype(policy::pass(p, policy::value)), program>;
};

namespace detail {

template <class policy> concept says_after = requires { policy::after; };

template <class policy, pass_name at> constexpr bool follows() {
  if constexpr (has_own_pass<policy>) return policy::after == at;
  else return says_after<policy> && at == pass_name::built; // to be refused there
}

template <class policy> constexpr program run_own_pass(program p) {
  if (!p.failure.ok()) return p;
  if constexpr (has_own_pass<policy>) return policy::pass(p, policy::value);
  p.fail({why::own_pass_is_none});
  return p;
}

template <class policies, pass_name at, program const& before> concept constant_passes = requires {
  typename std::bool_constant<(static_cast<void>(policies::template run<at>(before)), true)>;
};

} // namespace detail

/// The passes of one's own policies: `list` are those chosen, in the order of their slots.
template <class list> struct own_passes;
template <class... policies> struct own_passes<policy_list<policies...>> {
  /// Whether some run behind a pass of the library.
  template <pass_name at> static constexpr bool follow = (detail::follows<policies, at>() || ...);

  /// What those make of a program that run behind a pass.
  template <pass_name at> static constexpr program run(program p) {
    for_each<at>([&]<class policy>(std::type_identity<policy>) { p = detail::run_own_pass<policy>(p); });
    return p;
  }

  /// `before`, the constant that a pass of the library makes, where no pass of one's own runs behind it; else what
  /// those make of it.
  template <pass_name at, program const& before> static constexpr decltype(auto) after() {
    if constexpr (!follow<at>) return (before);
    else if constexpr (detail::constant_passes<own_passes, at, before>) return run<at>(before);
    else {
      program p = before;
      p.fail({why::own_pass_is_not_constant});
      return p;
    }
  }

  /// Calls f(name, program) for a pass of the library and those behind it.
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

/// What the passes of some policies make of the constant `before`, which the pass `at` of the library made: `before`
/// itself where none of them follows it.
template <class policies, pass_name at, program const& before> constexpr decltype(auto) with_own() {
  return own_passes<typename policies::in_order>::template after<at, before>();
}

/// Calls f(name, program) for a pass of the library and the policies' passes behind it.
template <class policies, pass_name at, class function> void report_own(function const& f, program const& before) {
  own_passes<typename policies::in_order>::template report<at>(f, before);
}

} // namespace constrain
