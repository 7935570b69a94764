#pragma once

#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Calls f(gradient) for each trained parameter, where `gradient` is a `value` of the program in `out`. The nodes that
/// f appends come after all other nodes. For a stacked parameter, they are in loops over the parameter's axes, so that
/// f works on one tensor at a time. Call this function in a pass that follows `pass_name::differentiated`. In a pass
/// that follows `pass_name::updated`, the nodes would come after the update and not affect the weights.
template <class function> constexpr void for_each_gradient(builder& out, function const& f) {
  for (int v = 0; v < out.program.values.size(); ++v) {
    if (out.program.values[v].role != role::gradient) continue;
    auto const axes = out.program.values[v].axes;
    for (int axis : axes) out.open(axis, false);
    f(value{out, {v, at::current}});
    for (int k = 0; k < axes.size(); ++k) out.close();
  }
}

} // namespace constrain
