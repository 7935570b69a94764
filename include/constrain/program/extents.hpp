#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Elements of one value, all its iterations and micro-batches included: beyond any machine, and so few that sums of
/// bytes over a whole program stay within 64 bits.
inline constexpr std::int64_t maximum_elements = std::int64_t{1} << 46;

/// What is wrong with the extents of a value: one below 1, or too many elements in all. Nothing in a program is
/// multiplied before this has been asked.
constexpr diagnosis check_extents(program const& p, value_info const& info) {
  std::int64_t total = 1;
  auto const fits = [&](std::int64_t extent) {
    if (extent < 1) return true; // no iterations: refused where they are said
    if (extent > maximum_elements / total) return false;
    total *= extent;
    return true;
  };
  for (int i = 0; i < info.shape.rank; ++i) {
    auto const extent = info.shape.extent[i];
    if (extent < 1) return {why::extent_below_one, info.line, 0, 1, extent};
    if (!fits(extent)) return {why::tensor_too_large, info.line, 0, maximum_elements, extent};
  }
  for (int axis : info.axes)
    if (!fits(p.axes[axis].extent)) return {why::tensor_too_large, info.line, 0, maximum_elements, p.axes[axis].extent};
  if (info.is_loop_carried() && !fits(p.axes[info.carried_along].extent + 1))
    return {why::tensor_too_large, info.line, 0, maximum_elements, p.axes[info.carried_along].extent};
  return {};
}

} // namespace constrain
