#pragma once

#include "constrain/program/diagnosis.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// Written out without a macro: compilers would print every step of its expansion beside the error.

/// The sentence of each reason: what is wrong, where, and what to write instead. A refused program instantiates
/// `refusal<d.reason, d>`: its static_assert is the only error, and the compiler prints the fields of `d` beside it.
template <why reason, diagnosis d> struct refusal;
template <diagnosis d> struct refusal<why::nothing, d> {};

template <diagnosis d> struct refusal<why::task_is_none, d> {
  static_assert(d.ok(), "trainer: its first argument is no task; write ct::trainer<ct::task<model, objective, "
                        "ct::micro_batch{.sequences = 8}>, policies...>");
};
template <diagnosis d> struct refusal<why::model_is_no_function, d> {
  static_assert(d.ok(), "task: the model is no function on values; give its type `constexpr ct::value "
                        "operator()(ct::value tokens) const` that returns the logits");
};
template <diagnosis d> struct refusal<why::objective_is_no_function, d> {
  static_assert(d.ok(), "task: the objective is no function on values; give its type `constexpr ct::value "
                        "operator()(ct::value logits, ct::value labels) const`, or write ct::causal_lm or "
                        "ct::classification");
};
template <diagnosis d> struct refusal<why::model_is_not_constant, d> {
  static_assert(d.ok(), "task: the model or the objective cannot be computed while it compiles; make every layer and "
                        "function they call `constexpr`, and let none throw, overflow, divide by zero or use an "
                        "empty ct::value. `constexpr auto program = task::write(ct::entry::step, ct::dtype::f32);` "
                        "makes the compiler name the place");
};
template <diagnosis d> struct refusal<why::micro_batch_is_empty, d> {
  static_assert(d.ok(), "task: a micro-batch needs sequences and tokens; write ct::micro_batch{.sequences = 8, "
                        ".tokens = 32} (tokens may be left out where the model has a `context`)");
};
template <diagnosis d> struct refusal<why::program_too_large, d> {
  static_assert(d.ok(), "the model is too large a program; put equal layers into one ct::repeat, which holds its "
                        "body once");
};
template <diagnosis d> struct refusal<why::extent_below_one, d> {
  static_assert(d.ok(), "an extent is `got`, and `expected` is the least: give the model's layers, widths, "
                        "vocabulary, context and classes 1 or more");
};
template <diagnosis d> struct refusal<why::tensor_too_large, d> {
  static_assert(d.ok(), "a tensor has more than `expected` elements in all iterations and micro-batches; make its "
                        "extents smaller (`got` is one of them)");
};
template <diagnosis d> struct refusal<why::widths_differ, d> {
  static_assert(d.ok(), "two shapes that must be equal differ: `expected` and `got` are the innermost extents that "
                        "do; make the widths equal, for example with a ct::linear between them");
};
template <diagnosis d> struct refusal<why::ranks_differ, d> {
  static_assert(d.ok(), "two shapes that must be equal have `expected` and `got` dimensions; bring both values to "
                        "one rank, for example take the ct::mean of both or of neither");
};
template <diagnosis d> struct refusal<why::ids_are_no_numbers, d> {
  static_assert(d.ok(), "the operation computes with real numbers, and the model's tokens are ids: pass them through "
                        "ct::embedding first");
};
template <diagnosis d> struct refusal<why::not_a_matrix_of_features, d> {
  static_assert(d.ok(), "ct::linear needs a value with features; pass [..., features]");
};
template <diagnosis d> struct refusal<why::weight_is_no_matrix, d> {
  static_assert(d.ok(), "a weight or table must be a matrix, [out, in] or [vocabulary, width]; this one has `got` "
                        "dimensions");
};
template <diagnosis d> struct refusal<why::heads_do_not_divide_the_width, d> {
  static_assert(d.ok(), "ct::attention: `got` heads do not divide the width `expected`; choose heads that divide it");
};
template <diagnosis d> struct refusal<why::qkv_is_not_three_times_the_width, d> {
  static_assert(d.ok(), "ct::attention needs queries, keys and values side by side: a width that is a multiple of 3, "
                        "such as ct::linear(..., 3 * x.features())");
};
template <diagnosis d> struct refusal<why::tokens_are_not_integers, d> {
  static_assert(d.ok(), "ct::embedding looks up integers: pass the model's tokens");
};
template <diagnosis d> struct refusal<why::sequence_longer_than_context, d> {
  static_assert(d.ok(), "the sequence of `got` tokens is longer than the context of `expected`; lower "
                        "micro_batch::tokens or raise the model's context");
};
template <diagnosis d> struct refusal<why::labels_do_not_fit_the_logits, d> {
  static_assert(d.ok(), "ct::cross_entropy needs one integer label per row of logits: logits [..., classes], labels "
                        "[...]");
};
template <diagnosis d> struct refusal<why::logits_have_no_tokens, d> {
  static_assert(d.ok(), "ct::causal_lm needs logits [sequences, tokens, vocabulary], and these have `got` dimensions "
                        "or other tokens; return a row for every token, or use ct::classification for one label a "
                        "sequence");
};
template <diagnosis d> struct refusal<why::axis_is_not_there, d> {
  static_assert(d.ok(), "the value has `got` dimensions where `expected` are needed; pass [sequences, tokens, "
                        "features]");
};
template <diagnosis d> struct refusal<why::repeat_changes_the_shape, d> {
  static_assert(d.ok(), "the body of ct::repeat must return the shape it is given; put what changes it before or "
                        "after the repeat");
};
template <diagnosis d> struct refusal<why::repeat_of_nothing, d> {
  static_assert(d.ok(), "ct::repeat needs at least one iteration; write `repeat(name, 1 or more, ...)`");
};
template <diagnosis d> struct refusal<why::repeat_ignores_its_input, d> {
  static_assert(d.ok(), "the body of ct::repeat does not use its argument; compute from it, for example x + layer(x)");
};
template <diagnosis d> struct refusal<why::value_left_its_repeat, d> {
  static_assert(d.ok(), "a value made in a repeat's body (line `expected`) is used outside of it (line `got`), where "
                        "it is not one value but one an iteration; return it from the body and use what ct::repeat "
                        "returns, or compute it outside");
};
template <diagnosis d> struct refusal<why::values_of_two_programs, d> {
  static_assert(d.ok(), "an operation mixes values of two models; use values of one model alone");
};
template <diagnosis d> struct refusal<why::role_of_no_parameter, d> {
  static_assert(d.ok(), "ct::parameter takes the role of a parameter: ct::role::weight, bias, norm, embedding, head "
                        "or frozen");
};
template <diagnosis d> struct refusal<why::loss_is_not_a_scalar, d> {
  static_assert(d.ok(), "the objective must return one number; end it with ct::cross_entropy");
};
template <diagnosis d> struct refusal<why::no_gradient_rule, d> {
  static_assert(d.ok(), "an operation between a trained parameter and the loss has no gradient rule; give its op a "
                        "`static constexpr void gradient(ct::backward&)`");
};
template <diagnosis d> struct refusal<why::gradient_is_not_constant, d> {
  static_assert(d.ok(),
                "the gradient rule of an op cannot be computed while it compiles; make each "
                "`gradient(ct::backward&)` constexpr, and let it name inputs and outputs that its op has alone");
};
template <diagnosis d> struct refusal<why::gradient_has_another_shape, d> {
  static_assert(d.ok(), "an op's gradient rule gives an input of `expected` elements a gradient of `got`; give each "
                        "input a gradient of its own shape");
};
template <diagnosis d> struct refusal<why::parameter_without_path_to_the_loss, d> {
  static_assert(d.ok(), "a trainable parameter does not reach the loss; use it in the model's result or give it "
                        "ct::role::frozen");
};
template <diagnosis d> struct refusal<why::nothing_is_trained, d> {
  static_assert(d.ok(), "no parameter is trained: all are frozen, or the model has none; give one a role other than "
                        "ct::role::frozen, or leave out the policy that freezes them");
};
template <diagnosis d> struct refusal<why::own_pass_is_none, d> {
  static_assert(d.ok(),
                "policy: with `after`, a ct::pass_name, goes `static constexpr ct::program pass(ct::program const&, "
                "slot const&)`; write both or neither");
};
template <diagnosis d> struct refusal<why::own_pass_is_not_constant, d> {
  static_assert(d.ok(),
                "policy: its `pass` cannot be computed while it compiles; make it and what it calls `constexpr`, "
                "and let none throw, overflow or index beyond an array");
};
template <diagnosis d> struct refusal<why::parameter_named_twice, d> {
  static_assert(d.ok(), "two parameters have one name (`expected` and `got` are their lines); give each layer of a "
                        "scope a name of its own");
};
template <diagnosis d> struct refusal<why::too_many_operands, d> {
  static_assert(d.ok(), "an operation has more operands than a node holds (8 inputs); split it");
};
template <diagnosis d> struct refusal<why::read_before_written, d> {
  static_assert(d.ok(), "a value is read before it is written; an operation of your own must write the values that it "
                        "makes by hand, and where there is none this is a mistake in a pass");
};
template <diagnosis d> struct refusal<why::loops_do_not_nest, d> {
  static_assert(d.ok(), "loops and ends do not match; an operation of your own must close the loops that it opens by "
                        "hand, and where there is none this is a mistake in a pass");
};
template <diagnosis d> struct refusal<why::shape_is_not_what_the_rule_says, d> {
  static_assert(d.ok(), "an op writes a value of another type or shape than its rule says; in an op of your own, "
                        "`infer` must follow the types of its inputs (bf16 under precision::bf16) and `gradient` "
                        "must name for each output the input whose gradient it is");
};
template <diagnosis d> struct refusal<why::partial_sum_is_read, d> {
  static_assert(d.ok(), "a gradient is read before it is summed over the ranks; this is a mistake in a pass");
};
template <diagnosis d> struct refusal<why::shard_is_read, d> {
  static_assert(d.ok(),
                "an operation reads a rank's shard of a parameter as if it were the full tensor; this is a mistake "
                "in a pass");
};

} // namespace constrain
