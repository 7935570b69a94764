#pragma once

#include "constrain/program/name.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An index space: the micro-batches, the iterations of a repeat, the segments of a checkpointed repeat. A loop
/// traverses one axis, forward or reversed; the forward and the backward loop of a repeat share their axis.
///
/// Strip-mining splits an axis into parts: index = segment * factor + iteration_in_segment. Nested loops over both
/// parts traverse the original axis, `whole`.
struct axis_info {
  name_ref name;           // printed with its loops
  std::int64_t extent = 0; // iterations; of an axis within segments: in a full segment (the last one may be shorter)
  int whole = -1;          // the axis that was split to make this one; -1: none
  std::int64_t factor = 1; // by how much one iteration moves the index of the original axis
};

/// Capacity: axes of one program.
inline constexpr int maximum_axes = 24;

} // namespace constrain
