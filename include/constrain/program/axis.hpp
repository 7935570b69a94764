#pragma once

#include "constrain/program/name.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An index space: micro-batches, the iterations of a repeat, the segments of a checkpointed repeat. A loop is one
/// traversal of an axis; the forward and the backward loop of a repeat share theirs.
///
/// An axis may be a part of another: iteration = segment * factor + iteration_in_segment. A loop over all parts binds
/// the whole.
struct axis_info {
  name_ref name;
  std::int64_t extent = 0; // iterations; for the inner part of a split the most there are in one segment
  int whole = -1;          // the axis this one is a part of
  std::int64_t factor = 1; // how far one iteration of this part moves the index of the whole
};

/// The most axes of a program.
inline constexpr int maximum_axes = 24;

} // namespace constrain
