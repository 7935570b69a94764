#pragma once

#include "constrain/policy/slot.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Rules in the order in which they are asked.
template <class...> struct rule_list {};

// clang-format off
/// What must hold of a list of policies, and the sentence for whoever breaks it: what, where, what to write instead.
/// `parameters` are the slots that it looks at, `said<slot> const&` where it counts policies:
///
///     CONSTRAIN_RULE(graph_on_cuda, (slot_of::launching const& l, slot_of::device const& d), !l.records || d.is_cuda,
///                    "launch::graph: only a CUDA device records graphs; write ...")
///
/// It stands in the slot, or in rules.hpp where it is about several slots of the library.
#define CONSTRAIN_RULE(rule, parameters, condition, text)                                                              \
  struct rule {                                                                                                        \
    static constexpr char const* name = #rule;                                                                         \
    static constexpr char const* sentence = text;                                                                      \
    static constexpr bool holds parameters { return condition; }                                                       \
    template <class composition> struct refused {                                                                      \
      static_assert(composition::template holds<rule>, text);                                                          \
    };                                                                                                                 \
  }
// clang-format on

/// What a list of policies says: a value for each slot. A composition converts to each of its slots.
template <class... slots> struct choices : said<slots>... {
  friend constexpr bool operator==(choices const&, choices const&) = default;
};

namespace detail {

template <class... parameters> constexpr bool holds(bool (*rule)(parameters...), auto const& choices) {
  return rule(static_cast<parameters>(choices)...);
}

template <class... lists> struct join_rules;
template <class... rules> struct join_rules<rule_list<rules...>> { using type = rule_list<rules...>; };
template <class... a, class... b, class... rest> struct join_rules<rule_list<a...>, rule_list<b...>, rest...> {
  using type = typename join_rules<rule_list<a..., b...>, rest...>::type;
};

/// Which rule is the first that does not hold; -1: all hold.
template <class... rules> constexpr int first_broken(rule_list<rules...>, auto const& choices) {
  int index = 0, found = -1;
  ((found < 0 && !holds(&rules::holds, choices) ? found = index : 0, ++index), ...);
  return found;
}

} // namespace detail

} // namespace constrain
