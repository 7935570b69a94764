#pragma once

#include "constrain/program/layout.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Why a program is refused at compile time. Each rule of the intermediate representation, which applies to every
/// program, has a reason here and an error sentence in sound.hpp. All other errors have the reason `refused`, and the
/// diagnosis identifies their error sentence (refusal.hpp).
enum class why {
  nothing,
  refused,
  program_too_large,
  extent_below_one,
  tensor_too_large,
  value_left_its_repeat,
  values_of_two_programs,
  role_is_not_for_parameters,
  parameter_named_twice,
  too_many_operands,
  read_before_written,
  overwritten_before_read,
  loops_do_not_nest,
  shape_differs_from_rule,
  partial_sum_is_read,
  wrong_layout,
  unguarded_write,
  skipped_iteration_is_read,
  exchange_may_be_skipped,
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
  refusal_label const* refusal = nullptr; // if the reason is `refused`: identifies the refusal
  op_label const* op = nullptr;           // of a layout error: the op that the sentence calls `op`
  layout held = layout::replicated;       // of a layout error: how the ranks hold a tensor
  layout needed = layout::replicated;     // of a layout error: how `op` needs the tensor

  /// Whether there is no error.
  constexpr bool ok() const { return reason == why::nothing; }
  /// The same error for a call to the op `of`: the ranks hold a tensor as `is`, but the op needs it as `should_be`.
  constexpr diagnosis with_layouts(op_label const* of, layout is, layout should_be) const {
    auto out = *this;
    out.op = of, out.held = is, out.needed = should_be;
    return out;
  }
  friend constexpr bool operator==(diagnosis const&, diagnosis const&) = default;
};

} // namespace constrain
