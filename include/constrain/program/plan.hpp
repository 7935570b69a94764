#pragma once

#include "constrain/program/axis.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/ref.hpp"
#include "constrain/program/shape.hpp"
#include "constrain/program/value_info.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// index(axis) * stride
struct index_term {
  int axis = -1;
  std::int64_t stride = 0;
};
/// At most one term for each loop around a node.
using index_terms = fixed_vector<index_term, axis_list::capacity>;

/// The bytes a kernel reads or writes: offset + sum of index * stride, in the arena. Of a loop-carried value the
/// instance is (position + sum of index * factor), modulo a ring.
struct operand {
  std::int64_t offset = 0;
  index_terms strides;
  std::int64_t position = 0;
  index_terms position_factors;
  std::int64_t position_stride = 0;
  std::int64_t ring = 0; // 0: all instances are there
  dtype type = dtype::f32;
  constrain::shape shape; // of one instance
  std::int64_t count = 0; // elements meant: more than one instance where a whole stack is
  int value = -1;
};

/// One line of the table that the executor walks.
struct step {
  node_kind kind = node_kind::call;
  op_label const* op = nullptr;
  int first_operand = 0;
  int inputs = 0;
  int outputs = 0;
  constrain::attributes attributes;
  int random_key = 0;
  index_terms iteration;    // numbers the iterations of the loops around
  unsigned accumulates = 0; // bit j: output j adds, except on the first write of a run
  unsigned adds = 0;        // bit j: not even then
  fixed_vector<int, axis_list::capacity>
      first[node::maximum_outputs]; // loops (steps) that must be in their first iteration for a first write
  int source = 0;                   // the node of the planned program, for messages

  int axis = -1; // of a loop
  bool reversed = false;
  int partner = 0; // of a loop its end, of an end its loop
};

/// The iterations of one axis as the executor sees them.
struct plan_axis {
  std::int64_t extent = 0;
  std::int64_t whole_extent = 0; // of an iteration within a segment: all iterations, to cut the last segment short
  int segments = -1;             // its sibling: the axis of the segments
};

/// What the host writes or reads: where it lies. Bytes 0 where the program has none.
struct host_view {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
  dtype type = dtype::f32;
};

/// A program with addresses: what is left to do is to walk it.
template <int step_count, int operand_count> struct plan {
  step steps[step_count == 0 ? 1 : step_count]{};
  operand operands[operand_count == 0 ? 1 : operand_count]{};
  plan_axis axes[maximum_axes]{};
  int micro_batches = -1;
  host_view tokens, labels, logits, loss, correct, gradient_squares, clip_coefficient, hyper;

  static constexpr int steps_size = step_count;
};

} // namespace constrain
