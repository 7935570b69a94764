#pragma once

#include "constrain/policy/rule.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A list of slots without repetition.
template <class... slots> struct slot_list {};

namespace slot_of {

/// The slot of types that are not policies; the rule of this slot refuses them.
struct unknown {
  friend constexpr bool operator==(unknown const&, unknown const&) = default;

  /// The default policy, which does nothing.
  struct nothing {};
  /// The slot's value for any type.
  template <class> static constexpr unknown of() { return {}; }
  template <class...> using otherwise = nothing;

  CONSTRAIN_RULE(
      known_policies, (said<unknown> const& u), u.given == 0,
      "policies: a template argument is not a policy; write each policy as a separate argument, for example "
      "precision::..., an optimizer (a type with `hyper`), accumulate<N>, checkpoint::..., or your own policy: a type "
      "with a `slot` and a `value`");
  using rules = rule_list<known_policies>;
};

} // namespace slot_of

namespace detail {

/// `type` is the list of the slots in `slots`, followed by the slots of `policies` that are not in `slots`.
template <class slots, class... policies> struct slots_with { using type = slots; };
template <class... slots, class first, class... rest>
struct slots_with<slot_list<slots...>, first, rest...>
    : slots_with<std::conditional_t<(std::is_same_v<slots, policy_slot<first>> || ...), slot_list<slots...>,
                                    slot_list<slots..., policy_slot<first>>>,
                 rest...> {};

/// The value of every slot for a list of policies, and the rules to check: the rules of each slot, followed by
/// `shared_rules`, the rules between slots.
template <class slots, class shared_rules, class... list> struct choices_of;
template <class... slots, class shared_rules, class... list>
struct choices_of<slot_list<slots...>, shared_rules, list...> {
  using rules = typename join_rules<typename slots::rules..., shared_rules>::type;
  static constexpr choices<slots...> value{
      said<slots>{value_of<policy_in<slots, list...>>(), count_in_slot<slots, list...>}...};
};

} // namespace detail

} // namespace constrain
