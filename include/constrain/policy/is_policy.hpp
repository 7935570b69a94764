#pragma once

#include "constrain/policy/is_slot.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A policy: a type that names a slot (is_slot.hpp) and gives the slot a value. For example:
///
///     template <int n> struct accumulate {
///       using slot = slot_of::accumulation;
///       static constexpr slot value{.micro_batches = n};
///     };
///
/// Optional members:
///
///     static constexpr char const* name = "accumulate";         // in output and saved runs; default: the type's name
///     static constexpr auto after = pass_name::selected;        // the pass of the library after which `pass` runs
///     static constexpr program pass(program const& p, slot const& value);
///
/// `name` must be UTF-8. If the policy also has a member type `base`, output shows the name of `base` after `name`, as
/// in "averaged<adamw>". `pass` returns the changed program (program/program.hpp); `pass` and `after` must be given
/// together.
template <class type> concept slotted_policy = requires {
  typename type::slot;
  requires is_slot<typename type::slot>;
  requires std::is_convertible_v<decltype(type::value), typename type::slot>;
};

/// An optimizer: any type with a member type `hyper` (hyperparameters). An optimizer needs no `slot` member;
/// is_optimizer.hpp lists the other members.
template <class type> concept optimizer_like = requires { typename type::hyper; };

/// A type that may follow the task in ct::trainer<task, ...>. Policies may be in any order, at most one per slot.
template <class type> concept is_policy = slotted_policy<type> || optimizer_like<type>;

} // namespace constrain
