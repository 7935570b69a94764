#pragma once

#include "constrain/policy/slot.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Rules in the order in which they are checked.
template <class...> struct rule_list {};

// clang-format off
/// Defines `rule`: a condition on the values of one or more slots, with the sentence that compilers print if the
/// condition is false. The sentence (`text`) states what is wrong, where, and what to write instead. `parameters`, in
/// parentheses: const references to the slots that the condition reads, or to `said<slot>` if the condition counts
/// policies:
///
///     CONSTRAIN_RULE(graph_on_cuda, (slot_of::launching const& l, slot_of::device const& d), !l.captures || d.is_cuda,
///                    "launch::graph: only a CUDA device captures graphs; write ...")
///
/// A rule about one slot is a member of that slot; rules between slots are in rules.hpp.
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

/// The values of all slots. Converts to each slot and to each `said<slot>`, which are the parameters of rules.
template <class... slots> struct choices : said<slots>... {
  friend constexpr bool operator==(choices const&, choices const&) = default;
};

namespace detail {

/// Whether a rule holds. `choices`: the values of the slots; they convert to the parameters of the rule.
template <class... parameters> constexpr bool holds(bool (*rule)(parameters...), auto const& choices) {
  return rule(static_cast<parameters>(choices)...);
}

/// `type` is the concatenation of these rule lists.
template <class... lists> struct join_rules;
template <class... rules> struct join_rules<rule_list<rules...>> { using type = rule_list<rules...>; };
template <class... a, class... b, class... rest> struct join_rules<rule_list<a...>, rule_list<b...>, rest...> {
  using type = typename join_rules<rule_list<a..., b...>, rest...>::type;
};

/// Index of the first rule that does not hold; -1: all hold.
template <class... rules> constexpr int first_broken(rule_list<rules...>, auto const& choices) {
  int index = 0, broken = -1;
  ((broken < 0 && !holds(&rules::holds, choices) ? broken = index : 0, ++index), ...);
  return broken;
}

} // namespace detail

} // namespace constrain
