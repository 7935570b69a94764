#pragma once

#include "constrain/policy/policy.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace slot_of {

struct optimizer;
struct unknown;

} // namespace slot_of

namespace detail {

// An optimizer needs no mark: a type with `hyper` is one.
template <class type> constexpr auto find_slot() {
  if constexpr (slotted_policy<type>) return std::type_identity<typename type::slot>{};
  else if constexpr (optimizer_like<type>) return std::type_identity<slot_of::optimizer>{};
  else return std::type_identity<slot_of::unknown>{};
}

} // namespace detail

/// The slot that a policy sits in; `slot_of::unknown` for a type that is no policy.
template <class policy> using policy_slot = typename decltype(detail::find_slot<policy>())::type;

/// How many of the policies sit in a slot.
template <class wanted, class... policies>
inline constexpr int count_in_slot = (0 + ... + (std::is_same_v<policy_slot<policies>, wanted> ? 1 : 0));

namespace detail {

template <class wanted, class otherwise, class... policies> struct find_policy { using type = otherwise; };
template <class wanted, class otherwise, class first, class... rest>
struct find_policy<wanted, otherwise, first, rest...> {
  using type = typename std::conditional_t<std::is_same_v<policy_slot<first>, wanted>, std::type_identity<first>,
                                           find_policy<wanted, otherwise, rest...>>::type;
};

} // namespace detail

/// The policy of a slot: the first of the list that sits in it, else the slot's default.
template <class slot, class... list>
using policy_in = typename detail::find_policy<slot, typename slot::template otherwise<list...>, list...>::type;

/// What a policy says, as its slot has it: `slot_of::accumulation{.micro_batches = 4}` of `accumulate<4>`.
template <class policy> constexpr policy_slot<policy> value_of() {
  if constexpr (slotted_policy<policy>) return policy::value;
  else return policy_slot<policy>::template of<policy>();
}

/// What a list of policies says of one slot.
template <class slot> struct said : slot {
  int given = 0; // policies of this slot; the value is the first one's, or the default's
  friend constexpr bool operator==(said const&, said const&) = default;
};

} // namespace constrain
