#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether a call inside the loops `enclosing` may read `r`: a value has one instance for each iteration of the loops
/// around its definition, so outside of them, or in the loop of another repeat, there is no telling which is meant.
/// What a repeat hands on from one iteration to the next is read in its own loop, what it starts and ends with around
/// it.
constexpr bool is_in_reach(program const& p, ref r, axis_list const& enclosing) {
  auto const& info = p.values[r.value];
  int const depth = info.axes.size();
  if (depth > enclosing.size()) return false;
  for (int i = 0; i < depth; ++i)
    if (info.axes[i] != enclosing[i]) return false;
  if (!info.is_loop_carried() || r.where == at::initial || r.where == at::final) return true;
  return depth < enclosing.size() && enclosing[depth] == info.carried_along;
}

} // namespace constrain
