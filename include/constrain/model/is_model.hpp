#pragma once

#include "constrain/program/value.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A model: a constexpr function on values (ct::value, a tensor of the program that is being built), from tokens
/// [sequences, tokens] to logits [sequences, tokens, classes] or [sequences, classes]. Layers are functions on values
/// too, from any shape to any shape.
///
///     constexpr ct::value operator()(ct::value tokens) const;
///
/// The model's fields are its configuration. They are public, so that a model can be a template argument. Optional:
///
///     int context; // maximum tokens of a sequence, and the default of `micro_batch::tokens`
template <class type> concept is_model = std::is_invocable_r_v<value, type const&, value>;

} // namespace constrain
