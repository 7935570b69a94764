#pragma once

#include "constrain/program/value.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An objective: a default-constructible type with a constexpr function from logits [..., classes] and labels [...]
/// (i32) to the loss, a scalar:
///
///     constexpr ct::value operator()(ct::value logits, ct::value labels) const;
template <class type>
concept is_objective = std::is_default_constructible_v<type> && std::is_invocable_r_v<value, type const&, value, value>;

} // namespace constrain
