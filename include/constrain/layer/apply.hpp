#pragma once

#include "constrain/program/value.hpp"

#include <concepts>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Applies the layer `l`, a function on values, to x and returns the layer's output. Adds `name` and a dot to the
/// prefix of the names of the layer's parameters: "block.mlp." for "mlp" in a repeat "block".
template <std::invocable<value> layer>
constexpr value apply(std::string_view name, layer const& l, value x, int line = __builtin_LINE()) {
  scope const inside(x.owner(), name, line);
  return l(x);
}

} // namespace constrain
