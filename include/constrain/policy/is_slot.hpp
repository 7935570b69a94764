#pragma once

#include "constrain/base/variant.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A slot is what a policy decides: an aggregate of named fields with `==`, the argument of the pass that carries it
/// out. Default member values must cost nothing. Members:
///
///     template <class... list> using otherwise = accumulate<1>; // the default, given the other policies
///     using rules = rule_list<...>;                             // what must hold of its values (rule.hpp)
///
/// Optional members:
///
///     template <class policy> struct named { using accumulation = policy; }; // makes policies<...>::accumulation
///     using examples = policy_list<...>;                        // one policy of each kind, for tables and tests
///     using refused = policy_list<...>;                         // policies that its own rules refuse, for the same
///     static constexpr bool always_named = true;                // named in tables even if it is the default
///     static constexpr bool free_on_resume = true;              // a saved run may resume with another policy
template <class type> concept is_slot = std::is_aggregate_v<type> && requires(type const& a, type const& b) {
  requires std::is_same_v<decltype(a == b), bool>;
  typename type::template otherwise<>;
  typename type::rules;
};

} // namespace constrain
