#pragma once

#include "constrain/policy/pass_name.hpp"
#include "constrain/policy/policy_name.hpp"
#include "constrain/program/program.hpp"

#include <string>
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

template <class policy, class before> concept constant_pass =
    requires { typename std::bool_constant<(static_cast<void>(policy::pass(before{}(), policy::value)), true)>; };

template <class policy, pass_name at> constexpr bool follows() {
  if constexpr (has_own_pass<policy>) return policy::after == at;
  else return says_after<policy> && at == pass_name::built; // to be refused there
}

template <class policy, class before> constexpr program run_own_pass(program p) {
  if constexpr (!has_own_pass<policy>) p.fail({why::own_pass_is_none});
  else if constexpr (!constant_pass<policy, before>) p.fail({why::own_pass_is_not_constant});
  else return policy::pass(p, policy::value);
  return p;
}

} // namespace detail

/// The passes of one's own policies: `list` are those chosen, in the order of their slots.
template <class list> struct own_passes;
template <class... policies> struct own_passes<policy_list<policies...>> {
  static constexpr bool any = (detail::says_after<policies> || ...);

  /// What `pass` makes, and after it the policies' own passes that follow it. `pass` captures nothing.
  template <pass_name at, class function> static constexpr program after(function const& pass) {
    if constexpr (!any) return pass();
    else if constexpr ((!detail::follows<policies, at>() && ...)) return pass();
    else {
      program p = pass();
      auto const run = [&]<class policy>(std::type_identity<policy>) {
        if constexpr (detail::follows<policy, at>())
          if (p.failure.ok()) p = detail::run_own_pass<policy, function>(p);
      };
      (run(std::type_identity<policies>{}), ...);
      return p;
    }
  }

  /// "selected + mine::pruned", for tables.
  template <pass_name at> static std::string name() {
    std::string text = name_of(at);
    auto const append = [&]<class policy>(std::type_identity<policy>) {
      if constexpr (detail::follows<policy, at>()) text += " + " + policy_name<policy>();
    };
    (append(std::type_identity<policies>{}), ...);
    return text;
  }
};

} // namespace constrain
