#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/layout.hpp"
#include "constrain/program/name.hpp"
#include "constrain/program/ref.hpp"
#include "constrain/program/role.hpp"
#include "constrain/program/shape.hpp"
#include "constrain/program/view.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Indices of axes, outermost first.
using axis_list = fixed_vector<int, 6>;

/// The initial values of a parameter, an optimizer state or a setting: draws from a normal distribution.
struct initial_value {
  double constant = 0; // mean of the distribution; the value of every element if `stddev` is 0
  double stddev = 0;   // standard deviation of the distribution
};

/// The properties of a value in a program.
struct value_info {
  dtype type = dtype::f32;                 // of an element
  constrain::role role = role::activation; // the purpose of the value
  constrain::shape shape;                  // of one instance, as one rank holds it
  axis_list axes;                          // the value has one instance per iteration of these axes; outermost first
  int loop_carried_axis = -1; // axis this loop-carried value runs along (n + 1 instances for n iterations); -1: none
  bool accumulates = false;   // several nodes or iterations add to the value, write parts of it, or change it in place
  int belongs_to = -1;        // the parameter of this gradient, state, copy or rounding error; -1: none
  int line = 0;               // source line in the model; 0: none
  name_ref name;              // of a parameter, setting or state ("exp_avg", without the parameter's name)
  initial_value initial;      // of a parameter, an optimizer state or a setting
  bool per_run = false;       // of an input: one value for all micro-batches, which the library writes before each run
  bool decays = false;        // of a parameter: weight decay applies to it; set by `update_rule::decays`
  bool ends_with_update = false; // of a gradient: neither a node nor the host reads it after the parameter's update
  bool is_average = false;       // of an optimizer state: an average, read outside training instead of the parameter
  bool resets_with_parameter = false; // of an optimizer state: setting the parameter's value resets this state
  int block = 1;                      // of an optimizer state or its shard: elements of the parameter per state element
  int parts = -1;       // of a parameter: index of its parts in `program::part_lists`; -1: it is one tensor
  ref overwritten_by;   // the value that an op writes in place over this value; the two share bytes
  constrain::view view; // the value of which this value is a view; the two share bytes
  constrain::layout layout = layout::replicated; // how ranks hold one instance
  constrain::shape full_shape;                   // of one instance of the full tensor, if the layout is flat
  int divided = -1;        // of a parameter: the dimension that is divided over the ranks of a tensor group; -1: none
  std::int64_t unused = 0; // of a divided value: indices by which the last rank's range is shorter than the others

  /// The shape of one instance before sharding. If the value is divided, this is the shape of one rank's ranges.
  constexpr constrain::shape shape_in_full() const { return layout == constrain::layout::flat ? full_shape : shape; }
  /// Whether this is a loop-carried value, such as the x of a repeat.
  constexpr bool is_loop_carried() const { return loop_carried_axis >= 0; }
};

} // namespace constrain
