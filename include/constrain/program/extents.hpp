#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The maximum number of elements of a value over all its iterations and micro-batches: 2^46 (256 TiB in fp32). With
/// this limit, sums of bytes over a program fit into 64 bits.
inline constexpr std::int64_t maximum_elements = std::int64_t{1} << 46;

/// Whether every extent of the shape is at least 1 and the shape has at most `maximum_elements` elements. If so,
/// `shape::elements` does not overflow.
constexpr bool has_valid_extents(shape const& s) {
  std::int64_t total = 1;
  for (int i = 0; i < s.rank; ++i) {
    if (s.extent[i] < 1 || s.extent[i] > maximum_elements / total) return false;
    total *= s.extent[i];
  }
  return true;
}

/// The error of a value with an extent below 1 or with more than `maximum_elements` elements; otherwise no error.
/// Values of a model are checked before any other code multiplies their extents, so that no product overflows.
constexpr diagnosis check_extents(program const& p, value_info const& info) {
  std::int64_t total = 1;
  auto const fits = [&](std::int64_t extent) {
    if (extent < 1) return true; // an axis without iterations is refused by its repeat or policy
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
  if (info.is_loop_carried() && !fits(p.axes[info.loop_carried_axis].extent + 1))
    return {why::tensor_too_large, info.line, 0, maximum_elements, p.axes[info.loop_carried_axis].extent};
  return {};
}

} // namespace constrain
