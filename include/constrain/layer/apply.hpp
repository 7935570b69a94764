#pragma once

#include "constrain/program/value.hpp"

#include <concepts>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Applies the layer `l`, a function on values, to x and returns the layer's output. Appends `name` and a dot (nothing
/// if `name` is empty) to the prefix of the layer's parameter names: the prefix is "block.mlp." for "mlp" in a repeat
/// "block". `line`: the source line of the call, for errors.
template <std::invocable<value> layer>
constexpr value apply(std::string_view name, layer const& l, value x, int line = __builtin_LINE()) {
  scope const inside(x.owner(), name, line);
  return l(x);
}

} // namespace constrain
