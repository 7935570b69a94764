#pragma once

#include "constrain/policy/rules.hpp"

#include <span>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A list of policies as a user writes it, legal or not. If the list breaks a rule, the compiler's error shows this
/// type, and with it the names of the policies.
template <class... list> struct composition {
  /// The library's slots, then the slots of the user's policies.
  using slots = typename detail::slots_with<library_slots, list...>::type;
  using choices = detail::choices_of<slots, rules_between_slots, list...>; // holds the value of every slot

  /// Whether a rule holds for this list.
  template <class rule> static constexpr bool holds = detail::holds(&rule::holds, choices::value);
  /// Index of the first rule that does not hold; -1: all hold.
  static constexpr int broken = detail::first_broken(typename choices::rules{}, choices::value);
};

/// The value of every slot for a list of policies.
template <class... list> constexpr auto composition_of() { return composition<list...>::choices::value; }

namespace detail {

/// The base class of `composition_is_legal` for a legal composition.
struct no_refusal {};

// The refusal of rule `index`; `no_refusal` if `index` is -1. This is a function, because for a recursive class
// template, compilers would list every class of the recursion, with all rules, in the error message.
template <int index, class composition, class first, class... rest>
constexpr auto find_refusal(rule_list<first, rest...>) {
  if constexpr (index < 0) return std::type_identity<no_refusal>{};
  else if constexpr (index == 0) return std::type_identity<typename first::template refused<composition>>{};
  else return find_refusal<index - 1, composition>(rule_list<rest...>{});
}
template <class composition> constexpr auto find_refusal() {
  return find_refusal<composition::broken, composition>(typename composition::choices::rules{});
}

} // namespace detail

/// Fails to compile, with the sentence of the first broken rule, unless all rules hold for the composition.
template <class composition> struct composition_is_legal : decltype(detail::find_refusal<composition>())::type {
  static constexpr bool value = true;
};

/// One row of the table of rules, for documentation and tests.
template <class choices> struct policy_rule {
  char const* name;              // name of the rule
  bool (*holds)(choices const&); // whether the rule holds for these values of the slots
  char const* sentence;          // what is wrong, where, and what to write instead
};

namespace detail {

/// The table of `rules`, in the order of the list.
template <class choices, class rules> struct rule_table;
template <class choices, class... rules> struct rule_table<choices, rule_list<rules...>> {
  template <class rule> static constexpr bool holds_of(choices const& c) { return holds(&rule::holds, c); }
  static constexpr int size = sizeof...(rules);
  static constexpr policy_rule<choices> rows[size] = {{rules::name, &holds_of<rules>, rules::sentence}...};
};

template <class... slots>
using rules_of_slots = typename join_rules<typename slots::rules..., rules_between_slots>::type;

} // namespace detail

/// The rules of a composition, in the order in which they are checked: the rules of each slot, then the rules between
/// slots.
template <class... slots> constexpr std::span<policy_rule<choices<slots...>> const> rules_of(choices<slots...> const&) {
  using table = detail::rule_table<choices<slots...>, detail::rules_of_slots<slots...>>;
  return {table::rows, table::size};
}

/// The first rule that does not hold for the values `c`; null: all hold.
template <class... slots> constexpr policy_rule<choices<slots...>> const* broken_rule(choices<slots...> const& c) {
  for (auto const& rule : rules_of(c))
    if (!rule.holds(c)) return &rule;
  return nullptr;
}

} // namespace constrain
