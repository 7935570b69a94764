#pragma once

#include "constrain/program/value.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A model, and every layer: a constexpr function on values, here from tokens [sequences, tokens] to logits
/// [sequences, tokens, classes] or [sequences, classes]:
///
///     constexpr ct::value operator()(ct::value tokens) const;
///
/// Its fields are its configuration: public, so that it can stand in a template argument. It may have
///
///     int context; // the most tokens of a sequence, and the default of `micro_batch::tokens`
template <class type> concept is_model = std::is_invocable_r_v<value, type const&, value>;

/// An objective: a constexpr function from logits and labels to the loss, one number:
///
///     constexpr ct::value operator()(ct::value logits, ct::value labels) const;
template <class type>
concept is_objective = std::is_default_constructible_v<type> && std::is_invocable_r_v<value, type const&, value, value>;

} // namespace constrain
