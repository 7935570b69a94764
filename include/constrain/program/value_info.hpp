#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/name.hpp"
#include "constrain/program/ref.hpp"
#include "constrain/program/role.hpp"
#include "constrain/program/shape.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The loops that a value has instances along, outermost first.
using axis_list = fixed_vector<int, 6>;

/// How a parameter starts.
struct initial_value {
  double constant = 0; // every element, where deviation is 0
  double stddev = 0;   // of a normal distribution around 0
};

/// What a program knows of a value.
struct value_info {
  dtype type = dtype::f32;
  constrain::role role = role::activation;
  constrain::shape shape;
  axis_list axes;           // the axes that tell its instances apart, outermost first
  int carried_along = -1;   // for the x of a repeat: the axis along which it has one instance more than iterations
  bool accumulates = false; // written by several iterations or nodes, which add up
  int belongs_to = -1;      // a gradient's or a state's parameter
  int field = 0;            // which field of the optimizer's state
  int line = 0;
  name_ref name;
  initial_value initial;
  ref stored_in;               // in-place: shares the bytes of this value
  std::int64_t shards = 1;     // over how many ranks one instance is cut; `shape` then is one rank's shard
  constrain::shape full_shape; // and this the full tensor's

  /// Whether each iteration of a loop hands it to the next.
  constexpr bool is_loop_carried() const { return carried_along >= 0; }
};

} // namespace constrain
