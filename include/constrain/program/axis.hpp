#pragma once

#include "constrain/program/name.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An index space: the micro-batches, the iterations of a ct::repeat, or, under activation checkpointing, the segments
/// of a repeat or the iterations within a segment. A loop traverses one axis, forward or reversed; a repeat's forward
/// and backward loops share one axis.
///
/// Strip-mining splits an axis in two, segments and iterations within a segment: index = segment * factor +
/// iteration_in_segment. Nested loops over these two axes traverse the original axis, `whole`.
struct axis_info {
  name_ref name;           // shown with the axis's loops in printed programs
  std::int64_t extent = 0; // iterations; within a segment: iterations of a full segment (the last may be shorter)
  int whole = -1;          // the axis that was split to make this one; -1: not made by a split
  std::int64_t factor = 1; // of an axis made by a split: by how much one iteration moves the index of `whole`
};

/// The most axes of one program.
inline constexpr int maximum_axes = 24;

} // namespace constrain
