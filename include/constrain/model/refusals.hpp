#pragma once

#include "constrain/program/refusal.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::refusals {

// The reasons for refusing a task.

/// The first template argument of ct::trainer is not a task.
template <diagnosis d> struct task_is_none {
  static_assert(d.ok(), "trainer: the first template argument must be a ct::task; write ct::trainer<ct::task<model, "
                        "objective, ct::micro_batch{.sequences = 8}>, policies...>");
};

/// The first template argument of ct::inference is not a task.
template <diagnosis d> struct task_of_inference_is_none {
  static_assert(d.ok(),
                "inference: the first template argument must be a ct::task; write ct::inference<ct::task<model, "
                "objective, ct::micro_batch{.sequences = 8}>, policies...>");
};

/// The model cannot be called with values.
template <diagnosis d> struct model_is_no_function {
  static_assert(d.ok(), "task: the model is not a function from ct::value to ct::value; give its type `constexpr "
                        "ct::value operator()(ct::value tokens) const` that returns the logits");
};

/// The model lists `got` inputs, but its call operator takes a different number.
template <diagnosis d> struct inputs_do_not_fit_the_model {
  static_assert(d.ok(), "task: the model lists `got` inputs, but its call operator does not take that many values; "
                        "write one ct::port_spec for each parameter, as in `static constexpr ct::port_spec inputs[] = "
                        "{{.name = \"tokens\"}, {.name = \"lengths\", .each = ct::per::sequence}};`. Without a list "
                        "the only input is tokens");
};

/// A ct::port_spec of the model or the objective is invalid.
template <diagnosis d> struct port_is_not_sound {
  static_assert(d.ok(), "task: the model's `inputs` or the objective's `labels` hold a ct::port_spec without a name, "
                        "two with the same name, negative `.features`, or an input that has one entry per row or "
                        "logit; give each its own .name, and inputs .each = ct::per::token or ct::per::sequence");
};

/// The objective cannot be called with logits and labels.
template <diagnosis d> struct objective_is_no_function {
  static_assert(d.ok(), "task: the objective is not a function from two ct::values to a ct::value; give its type "
                        "`constexpr ct::value operator()(ct::value logits, ct::value labels) const`, or write "
                        "ct::causal_lm or ct::classification");
};

/// The forward program is not a constant expression.
template <diagnosis d> struct model_is_not_constant {
  static_assert(d.ok(), "task: the model or the objective is not a constant expression; make every layer and "
                        "function they call `constexpr`, and let none throw, overflow, divide by zero or use an "
                        "empty ct::value. The compiler shows the line if you add `constexpr auto program = "
                        "task::write(ct::entry::step, ct::dtype::f32);`");
};

/// The model reads the number of labels.
template <diagnosis d> struct model_counts_labels {
  static_assert(d.ok(), "the model uses ct::inverse_label_count or a loss, but predict and generate have no labels; "
                        "use these only in the objective");
};

/// The micro-batch has `expected` sequences of `got` tokens.
template <diagnosis d> struct micro_batch_is_empty {
  static_assert(d.ok(), "task: a micro-batch needs sequences and tokens; write ct::micro_batch{.sequences = 8, "
                        ".tokens = 32} (`.tokens` is optional if the model has a `context`)");
};

/// The objective returns a value of `got` elements.
template <diagnosis d> struct loss_is_not_a_scalar {
  static_assert(d.ok(), "the objective must return a scalar; end it with ct::cross_entropy");
};

} // namespace constrain::refusals
