#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Why a program is refused at compile time. sound.hpp has an error sentence for each reason, except `refused`: an op
/// or an objective refuses its operands with a sentence of its own (refusal.hpp).
enum class why {
  nothing,
  refused,
  task_is_none,
  model_is_no_function,
  inputs_do_not_fit_the_model,
  port_is_not_sound,
  objective_is_no_function,
  model_is_not_constant,
  micro_batch_is_empty,
  program_too_large,
  extent_below_one,
  tensor_too_large,
  widths_differ,
  ranks_differ,
  ids_are_no_numbers,
  repeat_changes_the_shape,
  repeat_of_nothing,
  repeat_ignores_its_input,
  value_left_its_repeat,
  values_of_two_programs,
  role_of_no_parameter,
  loss_is_not_a_scalar,
  no_gradient_rule,
  gradient_is_not_constant,
  gradient_has_another_shape,
  parameter_without_path_to_the_loss,
  nothing_is_trained,
  own_pass_is_none,
  own_pass_is_not_constant,
  parameter_named_twice,
  too_many_operands,
  read_before_written,
  loops_do_not_nest,
  shape_is_not_what_the_rule_says,
  partial_sum_is_read,
  shard_is_read,
  stack_is_exchanged,
  unguarded_write,
  entries_differ,
  state_named_twice,
  setting_is_taken,
  update_is_not_constant,
};

/// Names a refusal of an op by its address.
struct refusal_label {};

/// An error as data. The type is structural, so that a diagnosis can be an argument of the template whose static_assert
/// fails: every compiler then prints the diagnosis's fields beside the error sentence.
struct diagnosis {
  why reason = why::nothing; // `nothing`: no error
  int line = 0;              // source line where the model calls the operation; 0: none
  int called_from = 0;       // source line where the model calls the outermost layer or repeat around it; 0: none
  std::int64_t expected = 0; // the number that the sentence calls `expected`
  std::int64_t got = 0;      // the number that the sentence calls `got`
  refusal_label const* refusal = nullptr; // if the reason is `refused`: the refusal with its sentence

  /// Whether there is no error.
  constexpr bool ok() const { return reason == why::nothing; }
  friend constexpr bool operator==(diagnosis const&, diagnosis const&) = default;
};

} // namespace constrain
