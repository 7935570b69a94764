#pragma once

#include "constrain/program/refusal.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::refusals {

// Reasons for which a pass refuses a program. The violations that `verify` finds are in program/sound.hpp.

/// The composition of policies is refused. A separate error gives the reason, so this refusal has no sentence.
template <diagnosis d> struct composition_is_refused {};

/// A policy has the member `after`, but no valid pass: `after` is not a ct::pass_name, or there is no valid `pass`.
template <diagnosis d> struct own_pass_is_missing {
  static_assert(d.ok(), "policy: it has a member `after`, but `after` is not a ct::pass_name, or the function `static "
                        "constexpr ct::program pass(ct::program const&, slot const&)` is missing; write both members, "
                        "or neither");
};

/// A policy has the member `pass`, but not the member `after`.
template <diagnosis d> struct own_pass_has_no_predecessor {
  static_assert(d.ok(), "policy: it has a member `pass`, but no member `after`, the pass of the library after which "
                        "`pass` runs; add one, for example `static constexpr auto after = ct::pass_name::selected`, or "
                        "remove `pass`");
};

/// The pass of a policy is not a constant expression.
template <diagnosis d> struct own_pass_is_not_constant {
  static_assert(d.ok(),
                "policy: its `pass` is not a constant expression; make it and the functions it calls `constexpr`, "
                "and let none throw, overflow or index beyond an array");
};

/// An optimizer or a policy's pass needs full tensors or blocks of elements, or draws random numbers, but tensor
/// parallelism divides these tensors.
template <diagnosis d> struct divided_tensor_is_read {
  static_assert(d.ok(),
                "parallel::tensor: an operation, `op`, of the optimizer or of a policy's pass needs a gradient, "
                "parameter or state in the layout `needed`, but the ranks hold it in the layout `held`, and each "
                "rank has only a range of it; use an element-wise optimizer, for example optimizer::adamw, and let "
                "passes call only ops that draw no random numbers and whose `layouts` have the pattern * for every "
                "operand, as in \"* -> *\"");
};

/// Tensor parallelism can divide nothing in the model, because of an op between two linear layers.
template <diagnosis d> struct nothing_is_divided {
  static_assert(d.ok(),
                "parallel::tensor: the ranks can divide no layer and no vocabulary; between two linear layers, each op "
                "must accept a tensor with the layout `held` and draw no random numbers, but the operation `op` needs "
                "the layout `needed`; choose numbers of features and heads that the number of ranks divides, declare "
                "letters in the `layouts` of `op`, move dropout elsewhere, or leave the policy out");
};

/// Tensor parallelism can divide nothing in the model, although no op prevents a division: for example because of the
/// model's sizes, or because its layers share parameters.
template <diagnosis d> struct no_features_to_divide {
  static_assert(d.ok(),
                "parallel::tensor: `expected` ranks can divide no layer and no vocabulary; no other layer may use "
                "a layer's weight or bias, and a layer needs a number of features that the number of ranks divides; a "
                "vocabulary needs at least as many rows as columns, and rows for every rank; choose other sizes or "
                "fewer ranks, or leave the policy out");
};

/// Backpropagation reaches an op without a gradient rule.
template <diagnosis d> struct no_gradient_rule {
  static_assert(d.ok(), "an operation between a trained parameter and the loss has no gradient rule; give its op a "
                        "`static constexpr void gradient(ct::backward&)`");
};

/// Backpropagation reaches a call that works on several instances of an operand.
template <diagnosis d> struct gradient_of_a_stack {
  static_assert(d.ok(),
                "an operation, `op`, between a trained parameter and the loss uses several tensors of a stack in one "
                "call, but its gradient rule works on one tensor; let your pass open loops over the stack's axes "
                "around the call (ct::builder::open_all)");
};

/// Output `got` of a call has a gradient, but the gradient rule of an op knows only the gradient of output `expected`.
template <diagnosis d> struct output_without_a_gradient {
  static_assert(d.ok(),
                "a gradient reaches output `got` of an operation, but an op passes on only the gradient of output "
                "`expected`; compute the value from output `expected` or with another op, or, if no gradient "
                "should flow, pass it through an op whose gradient rule adds nothing");
};

/// The gradient rule of an op is not a constant expression.
template <diagnosis d> struct gradient_is_not_constant {
  static_assert(d.ok(), "the gradient rule of an op is not a constant expression; make each `gradient(ct::backward&)` "
                        "and the functions it calls `constexpr`, let none throw or overflow, and pass the ct::backward "
                        "only indices of inputs and outputs that the op has");
};

/// A gradient rule gives a value of `expected` elements a gradient of `got` elements. If the two numbers are equal,
/// only the shapes differ.
template <diagnosis d> struct gradient_has_another_shape {
  static_assert(d.ok(), "an op's gradient rule gives an input of `expected` elements a gradient of `got` elements; "
                        "give each gradient the shape of its input");
};

/// No gradient flows from the result of a repeat's body to the body's argument.
template <diagnosis d> struct repeat_ignores_its_input {
  static_assert(d.ok(), "no gradient flows from the result of the body of ct::repeat to the body's argument; compute "
                        "the result from the argument with differentiable ops, for example x + layer(x)");
};

/// A pass adds to the loop of a repeat a second value that the loop carries and that has a gradient.
template <diagnosis d> struct loop_carries_two_values {
  static_assert(d.ok(), "a loop over the iterations of ct::repeat carries two values with gradients, but the backward "
                        "pass carries one gradient; let your pass compute its value in a loop of its own, after the "
                        "loop of the repeat");
};

/// The argument of a repeat's body has elements of `expected` bytes, but the result has elements of `got` bytes.
template <diagnosis d> struct repeat_changes_the_type {
  static_assert(d.ok(), "in mixed precision, the body of ct::repeat takes elements of `expected` bytes but returns "
                        "elements of `got` bytes; `+` and `*` with an fp32 value (a floating-point label, a "
                        "one-dimensional parameter) give fp32, so use such values in both the body's argument and its "
                        "result, or in neither");
};

/// A trained parameter has no gradient, for example because the loss does not depend on it.
template <diagnosis d> struct parameter_without_path_to_the_loss {
  static_assert(d.ok(), "no gradient reaches a trainable parameter; let the loss depend on the parameter through "
                        "differentiable ops, or give the parameter ct::role::frozen");
};

/// A policy's pass removed the loop over micro-batches.
template <diagnosis d> struct no_loop_over_micro_batches {
  static_assert(d.ok(), "the step has no loop over micro-batches; let your pass keep the loop that `accumulate` adds");
};

/// The program has no trained parameter.
template <diagnosis d> struct nothing_is_trained {
  static_assert(d.ok(), "no parameter is trained: all are frozen, or the model has none; give a parameter a role other "
                        "than ct::role::frozen, or let the policy `freeze` or `train_only` train more roles");
};

/// A call that is not in loops over all axes of value `got` reads or writes the value's instances, but the ranks
/// exchange them one by one.
template <diagnosis d> struct stack_is_exchanged {
  static_assert(d.ok(),
                "an operation, `op`, uses a stacked gradient, parameter or state without loops over all axes of the "
                "stack, in the layout `needed`, but the ranks hold the stack's tensors in the layout `held` and "
                "exchange them one by one; let your pass open loops over the stack's axes around the call "
                "(ct::builder::open_all), or give the op `layouts` if it works element by element");
};

/// A call in a loop reads the full tensor of value `got`, which is gathered before the loop, but the loop also writes
/// the value.
template <diagnosis d> struct loop_writes_gathered_value {
  static_assert(d.ok(),
                "an operation, `op`, in a loop needs a gradient, parameter or state in the layout `needed`, but the "
                "ranks hold it in the layout `held` and exchange it only before the loop, which also writes it; let "
                "one operation of the loop do the work, move the calls out of the loop, or give the ops `layouts` if "
                "all of them work element by element");
};

/// An op that works on shards declares `*` for an operand of `got` elements and for an output of `expected` elements.
template <diagnosis d> struct elements_do_not_pair {
  static_assert(d.ok(),
                "`layouts` of an operation, `op`, has the pattern *, which pairs elements, for an operand of `got` "
                "elements with the layout `held`, and for an output of `expected` elements, of which `op` computes "
                "shards (the layout `needed`); write - for an operand that every element needs, such as a scalar");
};

/// The update rule of the optimizer is not a constant expression.
template <diagnosis d> struct update_is_not_constant {
  static_assert(d.ok(), "optimizer: its `update(ct::update_rule&)` is not a constant expression; make it and the "
                        "functions it calls `constexpr`, and let none throw, overflow or index beyond an array");
};

/// The parameters or settings of two entry programs differ, so the programs cannot share the memory for them.
template <diagnosis d> struct entries_differ {
  static_assert(d.ok(),
                "the model or a policy's pass declares different parameters or settings for different entries (step, "
                "evaluate, predict, generate); declare the same ones for all entries and any number of sequences");
};

/// The search found no plan of the step that fits into the limit of checkpoint::budget.
template <diagnosis d> struct limit_is_too_small {
  static_assert(d.ok(),
                "checkpoint::budget: the trainer needs `got` bytes more than the limit, `expected`, with the smallest "
                "plan that the search found; write a larger limit or fewer sequences in a micro-batch, or add "
                "policies that save memory, such as precision::pure_bf16 and optimizer::adamw_8bit");
};

/// The step fits into the limit of checkpoint::budget, but another program of the trainer does not.
template <diagnosis d> struct limit_is_too_small_without_gradients {
  static_assert(d.ok(),
                "checkpoint::budget: the step fits into the limit, `expected`, but the trainer needs `got` bytes more "
                "for evaluate, predict, generate or the casts of kept copies, where recomputation saves no memory; "
                "write a larger limit, or lower micro_batch::evaluation_sequences or micro_batch::sequences");
};

} // namespace constrain::refusals
