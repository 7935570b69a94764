#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/attributes.hpp"
#include "constrain/program/ref.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

struct op_info;

/// An operation, or a loop's first or last line.
enum class node_kind : std::uint8_t { call, loop, end };

/// One line of a program: an operation, or the begin or end of a loop.
struct node {
  static constexpr int maximum_inputs = 8;
  static constexpr int maximum_outputs = 6;

  node_kind kind = node_kind::call;

  op_info const* op = nullptr;
  fixed_vector<ref, maximum_inputs> inputs;
  fixed_vector<ref, maximum_outputs> outputs;
  constrain::attributes attributes;
  int random_key = 0; // of a call that draws; the same in every clone, so that recomputed randomness is the same
  int line = 0;
  int called_from = 0;

  int axis = -1; // of a loop
  bool reversed = false;
};

} // namespace constrain
