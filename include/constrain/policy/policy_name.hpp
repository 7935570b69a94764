#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/type_name.hpp"
#include "constrain/base/utf8.hpp"
#include "constrain/policy/slot.hpp"

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The name, without "constrain::" unless `keeps_namespace`, and with '?' in place of every ASCII control character,
/// because the name is printed to terminals.
[[gnu::noinline, gnu::cold]] inline std::string plain_policy_name(std::string name, bool keeps_namespace) {
  if (!keeps_namespace) remove_all(name, "constrain::");
  for (char& c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return name;
}

/// Appends an item to a list of items separated by ", ".
[[gnu::noinline, gnu::cold]] inline void append_to_list(std::string& text, std::string const& item) {
  if (!text.empty()) text += ", ";
  text += item;
}

} // namespace detail

/// A policy's `name`, followed by the name of its `base` if it wraps another policy: "averaged<adamw>". For a policy
/// without a `name`, the name of its type: "checkpoint::every<2>".
template <class policy> std::string policy_name() {
  std::string name;
  if constexpr (requires { policy::name; }) name = policy::name;
  if constexpr (requires { typename policy::base; }) {
    if (!name.empty()) name += concat({"<", policy_name<typename policy::base>(), ">"});
  }
  if (name.empty()) name = type_name<policy>();
  // Saved runs contain the optimizer's name. This name keeps its namespace, so that older saved runs still match.
  return detail::plain_policy_name(std::move(name), optimizer_like<policy>);
}

namespace detail {

/// Whether the `name` of a policy and of each policy that it wraps is UTF-8. Ignores a `name` that is not a constant.
template <class policy> constexpr bool has_utf8_name() {
  if constexpr (requires { typename std::bool_constant<is_utf8(policy::name)>; })
    if (!is_utf8(policy::name)) return false;
  if constexpr (requires { typename policy::base; }) return has_utf8_name<typename policy::base>();
  else return true;
}

/// Fails to compile if the `name` of the policy, or of a policy that it wraps, is not UTF-8.
template <class policy> struct policy_named_in_utf8 {
  static_assert(has_utf8_name<policy>(), "policies: the `name` of a policy or of an optimizer is not UTF-8, but saved "
                                         "runs and records contain it as JSON; encode the name in UTF-8");
};

template <class slot> constexpr bool is_always_named() {
  if constexpr (requires { slot::always_named; }) return slot::always_named;
  return false;
}
template <class slot> constexpr bool is_free_on_resume() {
  if constexpr (requires { slot::free_on_resume; }) return slot::free_on_resume;
  return false;
}

/// Appends the name of the slot's policy, unless this policy is the default of a slot that is not always named.
template <class slot, class... list> void append_name(std::string& text) {
  using policy = policy_in<slot, list...>;
  if constexpr (is_always_named<slot>() || !std::is_same_v<policy, typename slot::template otherwise<list...>>)
    append_to_list(text, policy_name<policy>());
}

/// The same as append_name, but does nothing for a slot that is `free_on_resume`.
template <class slot, class... list> void append_name_if_kept(std::string& text) {
  if constexpr (!is_free_on_resume<slot>()) append_name<slot, list...>(text);
}

} // namespace detail

} // namespace constrain
