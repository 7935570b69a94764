#pragma once

#include "constrain/program/name.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The rows that each iteration of a loop over rows (pass/row_loop.hpp) works on. The loop reads the rows in the order
/// of op::valid_first: rows with a valid label come first. Iterations without a valid label do not run, except the one
/// that begins at row 0. (With launch::graph, all iterations run.) The host counts the valid labels of each micro-batch
/// when it receives the batch, so that it need not read the count from the device. Memory and cost are planned for all
/// iterations. If the first row of a loop is not row 0, an earlier node must have written the accumulators to which the
/// loop adds.
struct labelled_rows {
  std::int64_t begin = 0;         // first row of the first iteration; if it is 0, the first iteration always runs
  std::int64_t per_iteration = 0; // rows of one iteration; 0: all iterations run

  /// The number of iterations to run if the first `valid` rows have a valid label; the caller limits the result to the
  /// loop's extent. `per_iteration` must not be 0. The iteration that begins at row 0 always runs, because it makes the
  /// first writes to accumulators.
  constexpr std::int64_t iterations(std::int64_t valid) const {
    std::int64_t const rows = valid - begin, first = begin == 0 ? 1 : 0;
    return rows > first ? (rows + per_iteration - 1) / per_iteration : first;
  }
};

/// An index space: the micro-batches, the iterations of a ct::repeat, the chunks of a loop over rows, or, under
/// activation checkpointing, the segments of a repeat or the iterations within a segment. A loop traverses one axis,
/// forward or reversed; a repeat's forward and backward loops share one axis.
///
/// Strip-mining splits an axis in two, segments and iterations within a segment: index = segment * factor +
/// iteration_in_segment. Nested loops over these two axes traverse the split axis, `original`.
struct axis_info {
  name_ref name;           // shown with the axis's loops in printed programs
  std::int64_t extent = 0; // number of iterations; within a segment: of a full segment (the last may be shorter)
  int original = -1;       // the axis that was split to make this one; -1: not made by a split
  std::int64_t factor = 1; // for an axis made by a split: how far one iteration advances the index of `original`
  labelled_rows rows{};    // the rows of each iteration, if the loop skips iterations without a valid label
};

/// The maximum number of axes of a program.
inline constexpr int maximum_axes = 24;

} // namespace constrain
