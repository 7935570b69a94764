#pragma once

#include "constrain/policy/is_policy.hpp"
#include "constrain/policy/policy_list.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace slot_of {

struct optimizer;
struct unknown;

} // namespace slot_of

namespace detail {

// A type with `hyper` is an optimizer even if it has no member `slot`.
template <class type> constexpr auto find_slot() {
  if constexpr (slotted_policy<type>) return std::type_identity<typename type::slot>{};
  else if constexpr (optimizer_like<type>) return std::type_identity<slot_of::optimizer>{};
  else return std::type_identity<slot_of::unknown>{};
}

} // namespace detail

/// The slot of a policy; `slot_of::unknown` for a type that is not a policy.
template <class policy> using policy_slot = typename decltype(detail::find_slot<policy>())::type;

/// The number of a list's policies for the slot `wanted`.
template <class wanted, class... policies>
inline constexpr int count_in_slot = (0 + ... + (std::is_same_v<policy_slot<policies>, wanted> ? 1 : 0));

namespace detail {

/// `type` is the first of the policies for the slot `wanted`; if there is none, `otherwise`.
template <class wanted, class otherwise, class... policies> struct find_policy { using type = otherwise; };
template <class wanted, class otherwise, class first, class... rest>
struct find_policy<wanted, otherwise, first, rest...> {
  using type = typename std::conditional_t<std::is_same_v<policy_slot<first>, wanted>, std::type_identity<first>,
                                           find_policy<wanted, otherwise, rest...>>::type;
};

} // namespace detail

/// The list's first policy for `slot`; if there is none, the default of `slot`.
template <class slot, class... list>
using policy_in = typename detail::find_policy<slot, typename slot::template otherwise<list...>, list...>::type;

/// The value that a policy gives its slot: for `accumulate<4>`, `slot_of::accumulation{.micro_batches = 4}`.
template <class policy> constexpr policy_slot<policy> value_of() {
  if constexpr (slotted_policy<policy>) return policy::value;
  else return policy_slot<policy>::template of<policy>();
}

/// The value of a slot, and the number of the list's policies for this slot.
template <class slot> struct said : slot {
  int given = 0; // number of policies for this slot in the list; the first (if 0: the default) gives the value
  friend constexpr bool operator==(said const&, said const&) = default;
};

} // namespace constrain
