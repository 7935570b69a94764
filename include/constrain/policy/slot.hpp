#pragma once

#include "constrain/program/variant.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What a policy decides. Its slot is a property of its type, so a list of policies has no order and takes one of each.
namespace slot_of {
struct precision {};
struct optimizer {};
struct accumulation {};
struct checkpointing {};
struct parallelism {};
struct attention {};
struct fusion {};
struct device {};
struct launching {};
struct unknown {};
} // namespace slot_of

namespace detail {

// An optimizer needs no mark: whatever has numbers to run with is one.
template <class policy> constexpr auto find_slot() {
  if constexpr (requires { typename policy::slot; }) return std::type_identity<typename policy::slot>{};
  else if constexpr (requires { typename policy::hyper; }) return std::type_identity<slot_of::optimizer>{};
  else return std::type_identity<slot_of::unknown>{};
}

template <class wanted, class otherwise, class... policies> struct find_policy {
  using type = otherwise;
};
template <class wanted, class otherwise, class first, class... rest> struct find_policy<wanted, otherwise, first, rest...> {
  using type = typename std::conditional_t<std::is_same_v<typename decltype(find_slot<first>())::type, wanted>,
                                           std::type_identity<first>, find_policy<wanted, otherwise, rest...>>::type;
};

} // namespace detail

template <class policy> using policy_slot = typename decltype(detail::find_slot<policy>())::type;

/// How many of the policies sit in a slot.
template <class wanted, class... policies>
inline constexpr int count_in_slot = (0 + ... + (std::is_same_v<policy_slot<policies>, wanted> ? 1 : 0));

} // namespace constrain
