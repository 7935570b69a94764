#pragma once

#include "constrain/program/value.hpp"

#include <concepts>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Calls the layer `l`, a function on values, on x. The names of the layer's parameters begin with "name.".
template <std::invocable<value> layer>
constexpr value apply(std::string_view name, layer const& l, value x, int line = __builtin_LINE()) {
  scope const inside(x.owner(), name, line);
  return l(x);
}

} // namespace constrain
