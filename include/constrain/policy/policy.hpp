#pragma once

#include "constrain/base/variant.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Policies of a slot, for tables and tests.
template <class...> struct policy_list {};

/// What a policy decides is its *slot*: an aggregate with named fields and `==`, which passes take as their argument.
/// Its default member values cost nothing. It has
///
///     template <class... list> using otherwise = accumulate<1>; // the default; the other policies may matter
///     using rules = rule_list<...>;                             // what must hold of it (rule.hpp)
///
/// and may have
///
///     template <class policy> struct named { using accumulation = policy; }; // policies<...>::accumulation
///     using examples = policy_list<...>;                        // one policy of each kind
///     using refused = policy_list<...>;                         // policies that its own rules refuse
///     static constexpr bool always_named = true;                // named in tables also where it is the default
///     static constexpr bool free_on_resume = true;              // a saved run may go on with another one
template <class type> concept is_slot = std::is_aggregate_v<type> && requires(type const& a, type const& b) {
  requires std::is_same_v<decltype(a == b), bool>;
  typename type::template otherwise<>;
  typename type::rules;
};

/// A type that says its slot and what it says of it:
///
///     template <int n> struct accumulate {
///       using slot = slot_of::accumulation;
///       static constexpr slot value{.micro_batches = n};
///     };
///
/// and may have
///
///     static constexpr char const* name = "accumulate";         // else that of the type
///     static constexpr auto after = pass_name::selected;        // with `pass`: where it runs (pass_name.hpp)
///     static constexpr program pass(program const& p, slot const& value);
template <class type> concept slotted_policy = requires {
  typename type::slot;
  requires is_slot<typename type::slot>;
  requires std::is_convertible_v<decltype(type::value), typename type::slot>;
};

/// An optimizer is known by its numbers.
template <class type> concept optimizer_like = requires { typename type::hyper; };

/// What may stand after the task of a trainer: any order, each slot at most once.
template <class type> concept is_policy = slotted_policy<type> || optimizer_like<type>;

} // namespace constrain
