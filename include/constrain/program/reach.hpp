#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether a call inside the loops `enclosing` may read `r`. A value has one instance per iteration of the loops around
/// its definition, so outside these loops, or in another repeat, `r` would be ambiguous. A parameter has one instance
/// for all micro-batches. The instances `current` and `next` of a loop-carried value can be read only inside its loop;
/// `initial` and `final` can also be read outside.
constexpr bool is_in_reach(program const& p, ref r, axis_list const& enclosing) {
  auto const& info = p.values[r.value];
  bool const in_micro_batch = !enclosing.empty() && enclosing[0] == p.micro_batches;
  int const first = in_micro_batch && !info.axes.contains(p.micro_batches) ? 1 : 0;
  int const depth = first + info.axes.size();
  if (depth > enclosing.size()) return false;
  for (int i = first; i < depth; ++i)
    if (info.axes[i - first] != enclosing[i]) return false;
  if (!info.is_loop_carried() || r.where == at::initial || r.where == at::final) return true;
  return depth < enclosing.size() && enclosing[depth] == info.loop_carried_axis;
}

} // namespace constrain
