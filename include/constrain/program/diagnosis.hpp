#pragma once

#include "constrain/program/layout.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Why a program is refused at compile time; `nothing`: it is not refused. The rules of the intermediate representation
/// apply to every program; each has a reason here and an error sentence in sound.hpp. All other errors have the reason
/// `refused`. Except for a missing kernel (run/launchers.hpp), `diagnosis::refusal` identifies the error sentence
/// (refusal.hpp).
enum class why {
  nothing,                    // no error
  refused,                    // another error; see `diagnosis::refusal`
  program_too_large,          // a capacity of the program or of a pass is exceeded
  too_many_part_lists,        // the parameters have too many different lists of parts
  extent_below_one,           // an extent of a value, or of a shape in the options of an op, is less than 1
  tensor_too_large,           // a value has more than `maximum_elements` elements
  value_left_its_repeat,      // a call reads a value of a loop that is not around the call
  values_of_two_programs,     // a call has inputs from two programs, or a repeat returns a value of another program
  role_is_not_for_parameters, // ct::parameter is given a role that no parameter can have
  parameter_named_twice,      // two parameters have the same name
  too_many_operands,          // a call has more inputs or outputs than a node can have
  read_before_written,        // a node reads a value that is not written yet
  overwritten_before_read,    // a node reads a value after its bytes are overwritten
  loops_do_not_nest,          // a loop has no end, or an end has no loop
  shape_differs_from_rule,    // an output's type or shape is not what the op infers
  partial_sum_is_read,        // a node uses a sum over ranks before it is reduced
  wrong_layout,               // a node reads a tensor in a layout that its op does not accept
  unguarded_write,            // a node writes a persistent value even if the gradient norm is not finite
  skipped_iteration_is_read,  // a node reads a value that a skipped iteration would write
  stack_has_gaps,             // there may be gaps between the instances of a value on which a call works
  exchange_may_be_skipped,    // ranks with different batches exchange data in a loop that skips iterations
};

struct op_label;

/// A refusal is identified by the address of its `refusal_label`.
struct refusal_label {};

/// An error as data. The type is structural, so that a diagnosis can be an argument of the template whose static_assert
/// fails: every compiler then prints the diagnosis's fields beside the error sentence.
struct diagnosis {
  why reason = why::nothing; // `nothing`: no error
  int line = 0;              // source line of the call that the error is about; 0: none
  int called_from = 0;       // line where the model calls the outermost layer or repeat around this call; 0: none
  std::int64_t expected = 0; // the number that the sentence calls `expected`
  std::int64_t got = 0;      // the number that the sentence calls `got`
  refusal_label const* refusal = nullptr; // if the reason is `refused`: the refusal; null: a kernel is missing
  op_label const* op = nullptr;           // the op that the sentence calls `op`; null: none
  layout held = layout::replicated;       // of a layout error: how the ranks hold a tensor
  layout needed = layout::replicated;     // of a layout error: how `op` needs the tensor

  /// Whether there is no error.
  constexpr bool ok() const { return reason == why::nothing; }
  /// The same error for a call to the op `label`: the ranks hold a tensor as `actual`, but the op needs it as
  /// `required`. In an error that is not about layouts, both are `replicated`.
  constexpr diagnosis with_layouts(op_label const* label, layout actual, layout required) const {
    auto out = *this;
    out.op = label, out.held = actual, out.needed = required;
    return out;
  }
  friend constexpr bool operator==(diagnosis const&, diagnosis const&) = default;
};

} // namespace constrain
