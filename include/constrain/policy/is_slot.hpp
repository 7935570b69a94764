#pragma once

#include "constrain/base/variant.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A slot: one decision about a trainer, such as its precision. A policy decides by giving the slot a value, which the
/// code that implements the decision reads. A slot is an aggregate of named fields with `==`. Members:
///
///     template <class... list> using otherwise = accumulate<1>; // the default policy; `list`: the given policies
///     using rules = rule_list<...>;                             // conditions on the slot's values (rule.hpp)
///
/// Optional members:
///
///     template <class policy> struct named { using accumulation = policy; }; // makes policies<...>::accumulation
///     using examples = policy_list<...>;                        // for tables and tests; includes the default
///     using refused = policy_list<...>;                         // policies that `rules` refuse, for tables and tests
///     static constexpr bool always_named = true;                // output names the policy even if it is the default
///     static constexpr bool free_on_resume = true;              // a resumed run may have another policy of this slot
template <class type> concept is_slot = std::is_aggregate_v<type> && requires(type const& a, type const& b) {
  requires std::is_same_v<decltype(a == b), bool>;
  typename type::template otherwise<>;
  typename type::rules;
};

} // namespace constrain
