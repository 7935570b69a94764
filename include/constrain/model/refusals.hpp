#pragma once

#include "constrain/program/refusal.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::refusals {

// The reasons for refusing a task.

/// The first template argument of ct::trainer is not a task.
template <diagnosis d> struct trainer_argument_is_not_a_task {
  static_assert(d.ok(), "trainer: the first template argument must be a ct::task; write ct::trainer<ct::task<model, "
                        "objective, ct::micro_batch{.sequences = 8}>, policies...>");
};

/// The first template argument of ct::inference is not a task.
template <diagnosis d> struct inference_argument_is_not_a_task {
  static_assert(d.ok(),
                "inference: the first template argument must be a ct::task; write ct::inference<ct::task<model, "
                "objective, ct::micro_batch{.sequences = 8}>, policies...>");
};

/// The second template argument of ct::cheapest is not a task.
template <diagnosis d> struct cheapest_argument_is_not_a_task {
  static_assert(d.ok(), "cheapest: the second template argument must be a ct::task; write ct::task<model, objective, "
                        "ct::micro_batch{.sequences = 8}>");
};

/// The model or the objective returns a value of the body of a repeat.
template <diagnosis d> struct value_of_a_repeat_is_returned {
  static_assert(d.ok(), "task: the model or the objective returns a value defined in the body of a ct::repeat, but "
                        "each iteration has its own value; return the value from the body, and then the result of "
                        "ct::repeat, or define the value outside");
};

/// The model is not a function from values to a value.
template <diagnosis d> struct model_is_not_a_function {
  static_assert(d.ok(), "task: the model is not a function from ct::value to ct::value; give its type a public "
                        "`constexpr ct::value operator()(ct::value tokens) const` that returns the logits, or, if it "
                        "lists `inputs`, one with a ct::value for each of them, at most eight");
};

/// The model has `got` inputs (1 if it lists none; 0 if the list is empty or has more than `maximum_ports` ports), but
/// its call operator takes a different number of values.
template <diagnosis d> struct inputs_do_not_fit_the_model {
  static_assert(d.ok(), "task: the model has `got` inputs (0 also stands for more than eight), but its call operator "
                        "does not take that many values; write one ct::port_spec for each parameter, as in `static "
                        "constexpr ct::port_spec inputs[] = {{.name = \"tokens\"}, {.name = \"lengths\", .each = "
                        "ct::per::sequence}};`; without this list, the only input is `tokens`");
};

/// A list of ports of the model or the objective is empty or has more than `maximum_ports` ports, a ct::port_spec in it
/// is invalid, or the objective's member `labels` is not a static list.
template <diagnosis d> struct port_is_invalid {
  static_assert(d.ok(), "task: the model's `inputs` or the objective's `labels` are empty, have more than eight ports, "
                        "or hold a ct::port_spec without a name, two with the same name, one with a negative "
                        "`.features`, one whose `.type` or `.each` is not a constant of ct::port_type or ct::per, or "
                        "an input with one entry per row or logit, or the `labels` are not a static list; list one to "
                        "eight, each with a different `.name` and `.features` of at least 0, inputs with `.each = "
                        "ct::per::token` or `ct::per::sequence`, and labels in a static member");
};

/// The objective is not a function from the logits and all its labels to a value, is not default-constructible, or
/// lists inputs, as a model does.
template <diagnosis d> struct objective_is_not_a_function {
  static_assert(d.ok(), "task: the objective must be default-constructible and a function from the logits and its "
                        "labels to a loss, all of them ct::value; give its type a public `constexpr "
                        "ct::value operator()(ct::value logits, ct::value labels) const`, with a parameter for each "
                        "label that it lists, and no member `inputs` (a type with `inputs` is a model), or write "
                        "ct::causal_lm or ct::classification");
};

/// The forward program is not a constant expression.
template <diagnosis d> struct model_is_not_constant {
  static_assert(d.ok(), "task: the model or the objective is not a constant expression; make every layer and "
                        "function they call `constexpr`, and make sure that none throws, overflows, divides by zero "
                        "or uses an empty ct::value; the compiler shows the line if you add `constexpr auto program = "
                        "task::write(ct::entry::step, ct::dtype::f32);`");
};

/// The model reads ct::inverse_label_count, directly or through a loss.
template <diagnosis d> struct model_reads_label_count {
  static_assert(d.ok(), "the model uses ct::inverse_label_count or a loss, but predict and generate have no labels; "
                        "use these only in the objective");
};

/// The micro-batch has `expected` sequences of `got` tokens, and at least one of these numbers is below 1.
template <diagnosis d> struct micro_batch_is_empty {
  static_assert(d.ok(), "task: a micro-batch has `expected` sequences of `got` tokens, but needs at least one of each; "
                        "write for example ct::micro_batch{.sequences = 8, .tokens = 32} (`.tokens` is optional if the "
                        "model's `context` is above 0, or if the model has neither a `context` nor an input per "
                        "token)");
};

/// micro_batch::evaluation_sequences is negative: `got`.
template <diagnosis d> struct evaluation_sequences_are_negative {
  static_assert(d.ok(), "task: micro_batch::evaluation_sequences is `got`; give 0 or more (0 means as many as "
                        "`sequences`)");
};

/// The objective needs an input per token, but the model has none.
template <diagnosis d> struct no_input_per_token {
  static_assert(d.ok(), "ct::causal_lm, ct::masked_lm: the model has no input with one entry per token; list one, with "
                        "`.each = ct::per::token`, in its `inputs`, or use ct::classification");
};

/// The objective returns a value of `got` elements instead of one.
template <diagnosis d> struct loss_is_not_a_scalar {
  static_assert(d.ok(), "the objective returns a value of `got` elements, but must return a scalar; let it return a "
                        "loss, for example ct::cross_entropy(logits, labels)");
};

} // namespace constrain::refusals
