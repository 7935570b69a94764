#pragma once

#include "constrain/base/variant.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A list of policies.
template <class...> struct policy_list {};

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

/// A policy: its slot, and the value that it gives it.
///
///     template <int n> struct accumulate {
///       using slot = slot_of::accumulation;
///       static constexpr slot value{.micro_batches = n};
///     };
///
/// Optional members:
///
///     static constexpr char const* name = "accumulate";         // in tables; without it the type's
///     static constexpr auto after = pass_name::selected;        // with `pass`: the library's pass that it follows
///     static constexpr program pass(program const& p, slot const& value);
template <class type> concept slotted_policy = requires {
  typename type::slot;
  requires is_slot<typename type::slot>;
  requires std::is_convertible_v<decltype(type::value), typename type::slot>;
};

/// An optimizer: any type with hyperparameters. It needs no `slot` member; is_optimizer.hpp says what else it needs.
template <class type> concept optimizer_like = requires { typename type::hyper; };

/// What may follow the task in ct::trainer<...>: in any order, at most one per slot.
template <class type> concept is_policy = slotted_policy<type> || optimizer_like<type>;

} // namespace constrain
