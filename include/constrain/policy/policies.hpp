#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/policy/composition.hpp"
#include "constrain/policy/policy_name.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The base class in place of `named<policy>` if the slot has no such member.
template <class slot, class policy> struct nameless_in_slot {};
template <class slot, class policy> constexpr auto find_named() {
  if constexpr (requires { typename slot::template named<policy>; })
    return std::type_identity<typename slot::template named<policy>>{};
  else return std::type_identity<nameless_in_slot<slot, policy>>{};
}

/// The policy of each slot with a member `named`, as a member type such as `precision` or `optimizer`.
template <class slots, class... list> struct chosen;
template <class... slots, class... list>
struct chosen<slot_list<slots...>, list...> : decltype(find_named<slots, policy_in<slots, list...>>())::type... {
  /// The names of the policies that are not the default, or whose slot is `always_named`, such as "fp32, adamw".
  static std::string name() {
    std::string text;
    (append_name<slots, list...>(text), ...);
    return text;
  }
  /// Like `name`, but without the policies of slots that are `free_on_resume`. A resume compares this text.
  static std::string kept_on_resume() {
    std::string text;
    (append_name_if_kept<slots, list...>(text), ...);
    return text;
  }
};

/// `type` is the list of policies in the order of their slots; an empty list unless `legal`.
template <bool legal, class slots, class... list> struct legal_in_order { using type = policy_list<>; };
template <class... slots, class... list> struct legal_in_order<true, slot_list<slots...>, list...> {
  using type = policy_list<policy_in<slots, list...>...>;
};

} // namespace detail

/// A list of policies in any order, at most one per slot. A slot without a policy in the list has its default policy. A
/// list that breaks a rule does not compile: the compiler reports the sentence of the first broken rule. A policy whose
/// constant `name` is not UTF-8 does not compile either.
template <class... list> struct policies : detail::chosen<typename composition<list...>::slots, list...> {
  using composition = constrain::composition<list...>;
  static_assert(composition_is_legal<composition>::value);
  static_assert((0 + ... + sizeof(detail::policy_named_in_utf8<list>)) == sizeof...(list));

  /// The policy of a slot. The slot may be the library's or a user's.
  template <class slot> using in = policy_in<slot, list...>;

  /// The optimizer.
  using optimizer = policy_in<slot_of::optimizer, list...>;
  /// Whether mixed precision also casts the biases of linear layers to the compute type, which cuBLASLt requires for
  /// adding them in a GEMM. An inference object, which has no master weights, stores these biases in the compute type
  /// instead, so that its GEMMs read the same values as the GEMMs of a trainer with the same policies.
  static constexpr bool casts_biases = in<slot_of::precision>::value.masters && in<slot_of::device>::value.is_cuda;
  /// The policies in the order of their slots. Empty if the list breaks a rule, so that only one error is reported.
  using in_order =
      typename detail::legal_in_order<(composition::broken < 0), typename composition::slots, list...>::type;

  /// The optimizer's name (see `policy_name`), such as "averaged<adamw>". A saved run resumes only with an optimizer of
  /// the same name. ASCII control characters become '?', because the name is printed to terminals.
  static std::string optimizer_name() { return policy_name<optimizer>(); }

  /// The number and type of the values that an element-wise optimizer stores per weight, such as "2 x fp32"; empty for
  /// an optimizer with an update rule.
  static std::string optimizer_state() {
    if constexpr (has_update_rule<optimizer>) return {};
    else {
      constexpr auto type = op::state_type<optimizer>(in<slot_of::precision>::value.master);
      return concat({op::state_fields<optimizer>(), " x ",
                     type == dtype::f64    ? "fp64"
                     : type == dtype::bf16 ? "bf16"
                                           : "fp32"});
    }
  }
  /// The names of the fields of the optimizer's state, such as "exp_avg, exp_avg_sq"; empty for an optimizer without
  /// `state_names`.
  [[gnu::cold]] static std::string optimizer_state_names() {
    std::string names;
    if constexpr (requires { optimizer::state_names; })
      for (auto const& name : optimizer::state_names) names += concat({names.empty() ? "" : ", ", name});
    return names;
  }
};

} // namespace constrain
