#pragma once

#include "constrain/program/axis.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/op_label.hpp"
#include "constrain/program/port.hpp"
#include "constrain/program/ref.hpp"
#include "constrain/program/shape.hpp"
#include "constrain/program/value_info.hpp"

#include <cstdint>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// One term of an address or a position (see `operand`), or of `step::iteration`: the current index of `axis` times
/// `stride`.
struct index_term {
  int axis = -1;           // the axis of a loop around the call
  std::int64_t stride = 0; // per iteration of that loop: bytes in an address, instances in a position, or iterations
};
/// A sum of index terms.
using index_terms = fixed_vector<index_term, axis_list::capacity>;

/// The memory of one operand of a call: offset + sum of index * stride, in the arena (run/arena.hpp). A loop-carried
/// value adds position_stride * instance, where instance = position + sum of index * factor. If `ring` is not 0, the
/// instance is taken modulo `ring`.
struct operand {
  std::int64_t offset = 0;          // bytes from the arena's start, with all indices 0
  index_terms strides;              // bytes per iteration of each loop
  std::int64_t position = 0;        // instance of a loop-carried value, with all indices 0
  index_terms position_factors;     // instances per iteration of each loop
  std::int64_t position_stride = 0; // bytes from one instance to the next; 0: not loop-carried
  std::int64_t ring = 0;            // number of instances in memory, used cyclically; 0: all instances
  dtype type = dtype::f32;          // of an element
  constrain::shape shape;           // of one instance
  // number of elements that the call works on: the elements of one instance, times the extents of those axes of the
  // value that no loop around the call traverses
  std::int64_t count = 0;
  std::int64_t row_stride = 0; // elements from one row to the next in a view of longer rows; 0: contiguous
  int value = -1;              // index among the program's values
};

/// One entry of the table that the executor runs: a call, or the beginning or end of a loop.
struct step {
  node_kind kind = node_kind::call; // decides which of the fields below apply
  op_label const* op = nullptr;     // label of the op of a call
  int first_operand = 0;            // index among the plan's operands: inputs first, then outputs
  int inputs = 0;                   // number of inputs
  int outputs = 0;                  // number of outputs
  constrain::attributes attributes; // the constant options of the op
  int random_key = 0;               // key of the call's random numbers, as in `node`
  // terms whose sum is the index of the current iteration, counted over all loops around the call except the loop over
  // micro-batches
  index_terms iteration;
  // bit j: output j accumulates; `call::add_to(j)` is false only at the first write to an instance of the output in a
  // run
  unsigned accumulates = 0;
  unsigned adds = 0; // bit j: an earlier step has written output j, so this step always adds
  // per output j: the loops around the call over which output j accumulates, each given by the index of the step that
  // begins the loop; at the first write to an instance, all of these loops are in their first iteration
  fixed_vector<int, axis_list::capacity> first[node::maximum_outputs];
  int source = 0; // index of the node in the program, for messages

  int axis = -1;         // for a loop's beginning or end: the axis that the loop traverses
  bool reversed = false; // for a loop's beginning or end: whether the loop runs from the last iteration to the first
  int partner = 0;       // for a loop's beginning or end: index of the step at the other end of the loop
};

/// The properties of an axis that the executor needs to count iterations. "Within a segment" marks an axis that
/// strip-mining made for the iterations within a segment (axis.hpp).
struct plan_axis {
  std::int64_t extent = 0;          // number of iterations; within a segment: of a full segment
  std::int64_t original_extent = 0; // within a segment: extent of the axis that was split, to shorten the last segment
  int segments = -1;                // within a segment: the axis of the segments; -1 for every other axis
  labelled_rows rows{};             // the rows of each iteration, if the loop skips iterations without a valid label
};

/// A tensor that the host writes or reads in the arena. `elements` is 0 if the program has no such tensor, or if no
/// node uses the tensor.
struct host_view {
  std::int64_t offset = 0;   // bytes from the arena's start
  std::int64_t elements = 0; // of all micro-batches
  dtype type = dtype::f32;   // of an element
};

/// A port with its tensor in the arena.
struct plan_port {
  port_kind kind = port_kind::result; // whether the host writes or reads the tensor
  port_spec spec;                     // the name is unique among the ports of this kind; a result has only a name
  std::int64_t limit = 0;             // integers from the host must be in [0, limit); 0: not checked
  bool ignorable = false;             // for labels: whether the host may also pass `ignored_label`
  std::int64_t elements = 0;          // of all micro-batches
  host_view view;                     // the tensor; without elements if no node reads or writes it
};

/// A program with addresses: constant tables that the executor runs.
template <int step_count, int operand_count> struct plan {
  step steps[step_count == 0 ? 1 : step_count]{};             // in execution order
  operand operands[operand_count == 0 ? 1 : operand_count]{}; // of all calls, call by call
  plan_axis axes[maximum_axes]{};                             // in the order of `program::axes`
  int micro_batches = -1;                                     // the axis of gradient accumulation; -1: one micro-batch
  fixed_vector<plan_port, maximum_program_ports> ports;       // tensors that the host writes or reads
  host_view hyper;                                            // the optimizer's hyperparameters; the host writes them
  host_view inverse_label_count;                              // the setting of this name; the host writes it

  static constexpr int steps_size = step_count; // entries of `steps` in use

  /// The tensor of the result `name` ("logits", "loss", ...); without elements if the program has no such result.
  constexpr host_view result(std::string_view name) const {
    for (auto const& p : ports)
      if (p.kind == port_kind::result && p.spec.name == name) return p.view;
    return {};
  }
  /// Port `index` of a kind, in the order of declaration; a port without elements if `index` is too large.
  constexpr plan_port nth(port_kind kind, int index) const {
    for (auto const& p : ports)
      if (p.kind == kind && index-- == 0) return p;
    return {};
  }
};

} // namespace constrain
