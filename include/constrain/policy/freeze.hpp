#pragma once

#include "constrain/policy/pass_name.hpp"
#include "constrain/policy/rule.hpp"
#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <role... roles> struct freeze;
template <role... roles> struct train_only;

namespace slot_of {

/// The slot of freezing: the roles (program/role.hpp) whose parameters are not trained. is_slot.hpp explains the
/// members of a slot.
struct freezing {
  bool weight = false;    // role::weight is frozen
  bool bias = false;      // role::bias is frozen
  bool norm = false;      // role::norm is frozen
  bool embedding = false; // role::embedding is frozen
  bool head = false;      // role::head is frozen
  bool other = false;     // whether the policy names another role, which is a compile-time error
  friend constexpr bool operator==(freezing const&, freezing const&) = default;

  /// The value that freezes `roles`.
  template <role... roles> static constexpr freezing of_roles() {
    freezing f;
    ((f.of_role(roles) = true), ...);
    return f;
  }
  /// The value that freezes the roles that this value trains, and trains the roles that this value freezes.
  constexpr freezing opposite() const { return {!weight, !bias, !norm, !embedding, !head, other}; }
  /// Whether parameters of role `r` are frozen.
  constexpr bool freezes(role r) const { return freezing(*this).of_role(r); }
  /// The field for role `r`; `other` for all other roles.
  constexpr bool& of_role(role r) {
    switch (r) {
    case role::weight: return weight;
    case role::bias: return bias;
    case role::norm: return norm;
    case role::embedding: return embedding;
    case role::head: return head;
    default: return other;
    }
  }

  template <class...> using otherwise = freeze<>;
  template <class policy> struct named { using freezing = policy; };
  using examples = policy_list<freeze<>, freeze<role::embedding>, train_only<role::bias>>;
  using refused = policy_list<freeze<role::activation>, train_only<>>;

  CONSTRAIN_RULE(one_freezing, (said<freezing> const& f), f.given <= 1,
                 "policies: more than one freeze or train_only policy is given; keep one, for example "
                 "freeze<role::embedding>");
  CONSTRAIN_RULE(roles_of_parameters, (freezing const& f), !f.other,
                 "freeze, train_only: a given role is not a role of trainable parameters; write only role::weight, "
                 "role::bias, role::norm, role::embedding or role::head");
  CONSTRAIN_RULE(something_is_trained, (freezing const& f), !(f.weight && f.bias && f.norm && f.embedding && f.head),
                 "freeze, train_only: nothing would be trained; write fewer roles in freeze, or at least one role in "
                 "train_only");
  using rules = rule_list<one_freezing, roles_of_parameters, something_is_trained>;
};

} // namespace slot_of

namespace detail {

/// The pass of `freeze` and `train_only`. It gives parameters of frozen roles the role `frozen`; later passes do not
/// train these parameters.
struct freezes_by_role {
  static constexpr auto after = pass_name::built;
  static constexpr program pass(program const& p, slot_of::freezing const& freezing) {
    program out = p;
    for (auto& info : out.values)
      if (is_trainable(info.role) && freezing.freezes(info.role)) info.role = role::frozen;
    return out;
  }
};

} // namespace detail

/// Does not train parameters of these roles. These parameters have no gradient and no optimizer state, are not part of
/// the gradient norm, and do not decay. The default, `freeze<>`, trains all parameters except those to which the model
/// gives role::frozen. Refused: a role that is not a role of trainable parameters, all five roles together, and a model
/// in which no trained parameter remains.
template <role... roles> struct freeze : detail::freezes_by_role {
  using slot = slot_of::freezing;
  static constexpr slot value = slot::template of_roles<roles...>();
};
template <> struct freeze<> {
  using slot = slot_of::freezing;
  static constexpr slot value{};
};

/// Trains only parameters of these roles: `train_only<role::bias>` is BitFit (Ben Zaken et al. 2022), and
/// `train_only<role::head>` is a linear probe. Refused: a role that is not a role of trainable parameters, no role, and
/// a model without a parameter of these roles.
template <role... roles> struct train_only : detail::freezes_by_role {
  using slot = slot_of::freezing;
  static constexpr slot value = slot::template of_roles<roles...>().opposite();
};

} // namespace constrain
