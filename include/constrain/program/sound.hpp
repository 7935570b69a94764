#pragma once

#include "constrain/program/refusal.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// The specializations of `refusal` are written without a macro, because compilers would print each step of the macro's
// expansion beside the error.

/// The error sentence of each reason: what is wrong, and what to write instead. A refused program instantiates
/// `refusal<d.reason, d>`: its static_assert is the only error, and the compiler prints the fields of `d` beside it.
template <why reason, diagnosis d> struct refusal;
template <diagnosis d> struct refusal<why::nothing, d> {};
template <diagnosis d> struct refusal<why::refused, d> : detail::own_refusal<d> {};

template <diagnosis d> struct refusal<why::task_is_none, d> {
  static_assert(d.ok(), "trainer: the first template argument must be a ct::task; write ct::trainer<ct::task<model, "
                        "objective, ct::micro_batch{.sequences = 8}>, policies...>");
};
template <diagnosis d> struct refusal<why::model_is_no_function, d> {
  static_assert(d.ok(), "task: the model is not a function from ct::value to ct::value; give its type `constexpr "
                        "ct::value operator()(ct::value tokens) const` that returns the logits");
};
template <diagnosis d> struct refusal<why::inputs_do_not_fit_the_model, d> {
  static_assert(d.ok(), "task: the model lists `got` inputs, but its call operator does not take that many values; "
                        "write one ct::port_spec for each parameter, as in `static constexpr ct::port_spec inputs[] = "
                        "{{.name = \"tokens\"}, {.name = \"lengths\", .each = ct::per::sequence}};`. Without a list "
                        "the only input is tokens");
};
template <diagnosis d> struct refusal<why::port_is_not_sound, d> {
  static_assert(d.ok(), "task: the model's `inputs` or the objective's `labels` hold a ct::port_spec without a name, "
                        "two of one name, negative `.features`, or an input that has one entry per row or logit; "
                        "give each its own .name, and inputs .each = ct::per::token or ct::per::sequence");
};
template <diagnosis d> struct refusal<why::objective_is_no_function, d> {
  static_assert(d.ok(), "task: the objective is not a function from two ct::values to a ct::value; give its type "
                        "`constexpr ct::value operator()(ct::value logits, ct::value labels) const`, or write "
                        "ct::causal_lm or ct::classification");
};
template <diagnosis d> struct refusal<why::model_is_not_constant, d> {
  static_assert(d.ok(), "task: the model or the objective is not a constant expression; make every layer and "
                        "function they call `constexpr`, and let none throw, overflow, divide by zero or use an "
                        "empty ct::value. The compiler shows the line if you add `constexpr auto program = "
                        "task::write(ct::entry::step, ct::dtype::f32);`");
};
template <diagnosis d> struct refusal<why::micro_batch_is_empty, d> {
  static_assert(d.ok(), "task: a micro-batch needs sequences and tokens; write ct::micro_batch{.sequences = 8, "
                        ".tokens = 32} (`.tokens` is optional if the model has a `context`)");
};
template <diagnosis d> struct refusal<why::program_too_large, d> {
  static_assert(d.ok(), "the model's program is too large; put equal layers into one ct::repeat, which stores its "
                        "body once");
};
template <diagnosis d> struct refusal<why::extent_below_one, d> {
  static_assert(d.ok(), "an extent is `got`, but must be at least `expected`; set the model's layers, widths, "
                        "vocabulary, context and classes to 1 or more");
};
template <diagnosis d> struct refusal<why::tensor_too_large, d> {
  static_assert(d.ok(), "a tensor has more than `expected` elements over all iterations and micro-batches; make its "
                        "extents smaller (`got` is one of them)");
};
template <diagnosis d> struct refusal<why::widths_differ, d> {
  static_assert(d.ok(), "two shapes that must be equal differ: `expected` and `got` are the innermost extents that "
                        "differ; make the widths equal, for example with a ct::linear between them");
};
template <diagnosis d> struct refusal<why::ranks_differ, d> {
  static_assert(d.ok(), "two shapes that must be equal have `expected` and `got` dimensions; give both the same "
                        "number of dimensions, for example apply ct::mean to both or to neither");
};
template <diagnosis d> struct refusal<why::ids_are_no_numbers, d> {
  static_assert(d.ok(), "the operation needs floating-point values, but its input holds token ids; pass the tokens "
                        "through ct::embedding first");
};
template <diagnosis d> struct refusal<why::repeat_changes_the_shape, d> {
  static_assert(d.ok(), "the body of ct::repeat returns another shape than its argument's; move the layers that "
                        "change the shape before or after the repeat");
};
template <diagnosis d> struct refusal<why::repeat_of_nothing, d> {
  static_assert(d.ok(), "ct::repeat needs at least one iteration; write `repeat(name, 1 or more, ...)`");
};
template <diagnosis d> struct refusal<why::repeat_ignores_its_input, d> {
  static_assert(d.ok(), "the body of ct::repeat does not use its argument; compute the result from it, for example x "
                        "+ layer(x)");
};
template <diagnosis d> struct refusal<why::value_left_its_repeat, d> {
  static_assert(d.ok(), "a value computed in the body of a ct::repeat (line `expected`) is used outside of it (line "
                        "`got`), but each iteration has its own; return it from the body and use the result of "
                        "ct::repeat, or compute it outside");
};
template <diagnosis d> struct refusal<why::values_of_two_programs, d> {
  static_assert(d.ok(), "an operation combines values of two models; use only values of the same model");
};
template <diagnosis d> struct refusal<why::role_of_no_parameter, d> {
  static_assert(d.ok(), "ct::parameter takes the role of a parameter: ct::role::weight, bias, norm, embedding, head "
                        "or frozen");
};
template <diagnosis d> struct refusal<why::loss_is_not_a_scalar, d> {
  static_assert(d.ok(), "the objective must return a scalar; end it with ct::cross_entropy");
};
template <diagnosis d> struct refusal<why::no_gradient_rule, d> {
  static_assert(d.ok(), "an operation between a trained parameter and the loss has no gradient rule; give its op a "
                        "`static constexpr void gradient(ct::backward&)`");
};
template <diagnosis d> struct refusal<why::gradient_is_not_constant, d> {
  static_assert(d.ok(), "the gradient rule of an op is not a constant expression; make each `gradient(ct::backward&)` "
                        "constexpr, and pass it only indices of inputs and outputs that the op has");
};
template <diagnosis d> struct refusal<why::gradient_has_another_shape, d> {
  static_assert(d.ok(), "an op's gradient rule gives an input of `expected` elements a gradient of `got`; give each "
                        "gradient the shape of its input");
};
template <diagnosis d> struct refusal<why::parameter_without_path_to_the_loss, d> {
  static_assert(d.ok(), "a trainable parameter does not reach the loss; use it in the model's result or give it "
                        "ct::role::frozen");
};
template <diagnosis d> struct refusal<why::nothing_is_trained, d> {
  static_assert(d.ok(), "no parameter is trained: all are frozen, or the model has none; give one a role other than "
                        "ct::role::frozen, or leave out the freeze policy");
};
template <diagnosis d> struct refusal<why::own_pass_is_none, d> {
  static_assert(d.ok(), "policy: `after` (a ct::pass_name) needs a function `static constexpr ct::program "
                        "pass(ct::program const&, slot const&)` beside it; write both or neither");
};
template <diagnosis d> struct refusal<why::own_pass_is_not_constant, d> {
  static_assert(d.ok(),
                "policy: its `pass` is not a constant expression; make it and the functions it calls `constexpr`, "
                "and let none throw, overflow or index beyond an array");
};
template <diagnosis d> struct refusal<why::parameter_named_twice, d> {
  static_assert(d.ok(), "two parameters have the same name (`expected` and `got` are their lines); give each layer "
                        "of a scope its own name");
};
template <diagnosis d> struct refusal<why::too_many_operands, d> {
  static_assert(d.ok(), "an operation has more operands than a node holds (8 inputs); split it");
};
template <diagnosis d> struct refusal<why::read_before_written, d> {
  static_assert(d.ok(), "a value is read before it is written; if an op or pass of yours adds nodes, let an earlier "
                        "node write the value, otherwise this is a bug in ConsTrain: report it with the model");
};
template <diagnosis d> struct refusal<why::loops_do_not_nest, d> {
  static_assert(d.ok(), "a loop has no end, or an end has no loop; if an op or pass of yours opens a loop, let it "
                        "close the loop too, otherwise this is a bug in ConsTrain: report it with the model");
};
template <diagnosis d> struct refusal<why::shape_is_not_what_the_rule_says, d> {
  static_assert(d.ok(), "an op writes a value of another type or shape than its `infer` returns; in your own op, let "
                        "`infer` follow the types of its inputs (bf16 with precision::bf16), and in `gradient` pass "
                        "to `emit`, for each output, the index of the input that it is the gradient of");
};
template <diagnosis d> struct refusal<why::partial_sum_is_read, d> {
  static_assert(d.ok(),
                "an operation reads or overwrites a gradient, or reads the loss, before the last node that adds "
                "to it, so the sum over the ranks is not complete; if a pass of yours calls it, let the pass "
                "call it after the loops of the backward pass, otherwise this is a bug in ConsTrain: report it "
                "with the model");
};
template <diagnosis d> struct refusal<why::shard_is_read, d> {
  static_assert(d.ok(),
                "an operation reads one rank's shard of a parameter as if it were the full tensor; this is a bug in "
                "a pass: report it with the model");
};
template <diagnosis d> struct refusal<why::stack_is_exchanged, d> {
  static_assert(d.ok(),
                "an operation reads or writes all tensors of a stacked gradient, parameter or state in one call, "
                "but the ranks exchange them one by one; let your pass open loops over the value's axes around "
                "the call (ct::builder::open), or declare `reads_shards` if the op can work on shards");
};
template <diagnosis d> struct refusal<why::update_is_not_constant, d> {
  static_assert(d.ok(), "optimizer: its `update(ct::update_rule&)` is not a constant expression; make it and the "
                        "functions it calls `constexpr`, and let none throw, overflow or index beyond an array");
};
template <diagnosis d> struct refusal<why::entries_differ, d> {
  static_assert(d.ok(),
                "the model makes other parameters or settings for one entry (step, evaluate, predict, generate) "
                "than for another; let them not depend on the number of sequences");
};
template <diagnosis d> struct refusal<why::state_named_twice, d> {
  static_assert(d.ok(), "optimizer: its rule gives two states of a parameter the same name; give each state a name of "
                        "its own, for example by not averaging twice");
};
template <diagnosis d> struct refusal<why::setting_is_taken, d> {
  static_assert(d.ok(), "the model has a setting named loss_scale or loss_scale_steps, which precision::fp16 uses "
                        "itself; give the setting another name");
};
template <diagnosis d> struct refusal<why::unguarded_write, d> {
  static_assert(d.ok(), "an operation writes a parameter or an optimizer state itself, so a gradient that is not "
                        "finite would spoil it; let it compute a new value, and store the value with "
                        "ct::update_rule::assign");
};

} // namespace constrain
