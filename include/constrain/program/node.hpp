#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/attributes.hpp"
#include "constrain/program/ref.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

struct op_info;

/// The kind of a node: a call to an op, the beginning of a loop, or the end of a loop.
enum class node_kind : std::uint8_t { call, loop, end };

/// One entry of a program: a call to an op, or the beginning or end of a loop.
struct node {
  static constexpr int maximum_inputs = 8;  // of one call
  static constexpr int maximum_outputs = 9; // of one call: a weight, and codes and scales of four 8-bit states

  node_kind kind = node_kind::call; // decides which of the fields below apply

  op_info const* op = nullptr;                // of a call
  fixed_vector<ref, maximum_inputs> inputs;   // of a call: the values it reads, in the kernel's order
  fixed_vector<ref, maximum_outputs> outputs; // of a call: the values it writes, in the kernel's order
  constrain::attributes attributes;           // of a call: constant options of the op
  int random_key = 0;                         // of a call: random key, shared by gradient and recomputation; 0: none
  int line = 0;                               // source line of the call or, in calls of passes, of a value; 0: none
  int called_from = 0;                        // source line of the outermost layer or repeat around the call; 0: none
  // whether `differentiate`, `rematerialize` or `sum_parts_together` added the node
  bool backward = false;

  int axis = -1;         // of the beginning of a loop: the axis that the loop traverses
  bool reversed = false; // of the beginning of a loop: whether the last iteration runs first
};

} // namespace constrain
