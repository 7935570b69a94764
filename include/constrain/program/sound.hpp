#pragma once

#include "constrain/program/op_label.hpp"
#include "constrain/program/refusal.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// The specializations of `refusal` are written without a macro, because compilers would print the macro's expansion
// beside the error.

/// The error sentence of a reason: what is wrong, and what to write instead.
template <why reason, diagnosis d> struct refusal;
template <diagnosis d> struct refusal<why::nothing, d> {};

template <diagnosis d> struct refusal<why::program_too_large, d> {
  static_assert(d.ok(), "the model's program is too large; it exceeds a limit, `expected`, for example of its nodes, "
                        "values, names, nested loops or tensors that ranks exchange; put equal layers into one "
                        "ct::repeat, which stores its body once, nest fewer repeats, or, because each state of the "
                        "optimizer and each of its shards adds values, choose an optimizer with fewer states, or "
                        "parallel::ddp in place of parallel::zero");
};
template <diagnosis d> struct refusal<why::too_many_part_lists, d> {
  static_assert(d.ok(), "the model's parameters have more than `expected` different lists of parts (ct::in_parts, or "
                        "`parts` of a layer; with parallel::tensor, also the lists of one rank's ranges); give equal "
                        "layers equal parts, or leave `parts` out");
};
template <diagnosis d> struct refusal<why::extent_below_one, d> {
  static_assert(d.ok(), "an extent is `got`, but must be at least `expected`; set the model's widths, vocabulary, "
                        "context and classes, and the extents of each ct::shape, to at least 1");
};
template <diagnosis d> struct refusal<why::tensor_too_large, d> {
  static_assert(d.ok(), "a tensor has more than `expected` elements over all iterations and micro-batches; lower its "
                        "extents or the numbers of iterations and micro-batches (`got` is one of these numbers)");
};
template <diagnosis d> struct refusal<why::value_left_its_repeat, d> {
  static_assert(d.ok(), "a value (line `expected`) defined in a loop, such as the body of a ct::repeat, is used "
                        "outside of the loop (line `got`), but each iteration has its own value; return the value "
                        "from the body and use the result of ct::repeat, define the value outside, or, in a pass, use "
                        "the value in the loop");
};
template <diagnosis d> struct refusal<why::values_of_two_programs, d> {
  static_assert(d.ok(), "an operation or the body of a ct::repeat uses values of two models; use only values of "
                        "the same model");
};
template <diagnosis d> struct refusal<why::role_is_not_for_parameters, d> {
  static_assert(d.ok(), "ct::parameter: the given role is not for parameters; give ct::role::weight, bias, norm, "
                        "embedding, head or frozen");
};
template <diagnosis d> struct refusal<why::parameter_named_twice, d> {
  static_assert(d.ok(), "two parameters have the same name (`expected` and `got` are their lines); give each layer "
                        "of a scope, and each parameter of a layer, a different name");
};
template <diagnosis d> struct refusal<why::too_many_operands, d> {
  static_assert(d.ok(), "an operation has more inputs or outputs than a node can hold (8 and 9); split the operation");
};
template <diagnosis d> struct refusal<why::read_before_written, d> {
  static_assert(d.ok(), "a value is read before it is written; if your op or pass adds nodes, let an earlier node "
                        "write the value; if not, this is a bug in ConsTrain: report it with the model");
};
template <diagnosis d> struct refusal<why::overwritten_before_read, d> {
  static_assert(d.ok(),
                "an operation reads a value after another operation has overwritten the value's bytes; if your pass "
                "makes values share bytes, correct the pass; if not, this is a bug in ConsTrain: report it with "
                "the model");
};
template <diagnosis d> struct refusal<why::loops_do_not_nest, d> {
  static_assert(d.ok(), "a loop has no end, or an end has no loop; if your op or pass opens a loop, let it close "
                        "the loop too; if not, this is a bug in ConsTrain: report it with the model");
};
template <diagnosis d> struct refusal<why::shape_differs_from_rule, d> {
  static_assert(d.ok(), "an op writes a value whose type or shape differs from what its `infer` returns; in your own "
                        "op, let `infer` derive the output types from the input types (bf16 with precision::bf16), and "
                        "let `gradient` pass to `emit`, for each output, the index of the input whose gradient it is; "
                        "in your own pass, give each output of a call the type and shape that `infer` returns");
};
template <diagnosis d> struct refusal<why::partial_sum_is_read, d> {
  static_assert(d.ok(),
                "an operation, `op`, reads or overwrites a gradient, or reads the loss, before the last node that adds "
                "to it, so the ranks hold the tensor in the layout `held`, but `op` needs the layout `needed`; if "
                "your pass calls `op`, let the pass call `op` after the loops of the backward pass; if not, this "
                "is a bug in ConsTrain: report it with the model");
};
template <diagnosis d> struct refusal<why::wrong_layout, d> {
  static_assert(d.ok(),
                "an operation, `op`, needs a tensor in the layout `needed`, but the ranks hold it in the layout "
                "`held`; if your pass calls `op`, let the pass give `op` a tensor with the layout `needed`; if "
                "not, this is a bug in ConsTrain: report it with the model");
};
template <diagnosis d> struct refusal<why::unguarded_write, d> {
  static_assert(d.ok(), "an operation writes a parameter, an optimizer state or a setting directly, so a gradient "
                        "that is not finite would spoil the tensor; let the operation compute a new value, and store "
                        "that value with ct::update_rule::assign or, in a pass, with ct::op::assign");
};
template <diagnosis d> struct refusal<why::skipped_iteration_is_read, d> {
  static_assert(d.ok(), "an operation outside of a loop over rows reads a value that the loop computes, but iterations "
                        "without a valid label do not run; if your pass adds the loop or the operation, let the loop's "
                        "body add to an accumulator, and read the accumulator; if not, this is a bug in ConsTrain: "
                        "report it with the model");
};
template <diagnosis d> struct refusal<why::stack_has_gaps, d> {
  static_assert(d.ok(),
                "an operation, `op`, uses `got` of a stack's tensors in one call, but there may be gaps between the "
                "tensors: another operation uses `expected` at a time, or the call is in a loop over an inner axis of "
                "the stack, but not in loops over all outer ones; if your pass calls `op`, let the pass open loops "
                "over the stack's axes around the call (ct::builder::open_all); if not, this is a bug in ConsTrain: "
                "report it with the model");
};
template <diagnosis d> struct refusal<why::exchange_may_be_skipped, d> {
  static_assert(d.ok(), "ranks exchange data in a loop over rows whose iterations without a valid label do not run, so "
                        "a rank could wait forever for other ranks; if your pass adds the loop or the collective, move "
                        "the collective before or after the loop; if not, this is a bug in ConsTrain: report it with "
                        "the model");
};

namespace detail {

/// The refusal of a call to `op`: the call needs a tensor in the layout `needed`, but the ranks hold it in the layout
/// `held`. In an error that is not about layouts, both are `replicated`. Compilers print `op`, `held` and `needed`
/// beside the error sentence.
template <class op, layout held, layout needed, class refusal> struct op_held_needed : refusal {};

template <class refusal, op_label const* op, layout held, layout needed> struct with_layouts {
  using type = op_held_needed<op_type<op>, held, needed, refusal>;
};
template <class refusal, layout held, layout needed> struct with_layouts<refusal, nullptr, held, needed> {
  using type = refusal;
};

} // namespace detail

/// `type` is the refusal of the diagnosis `d`, whose reason is `reason`. Unless `d.ok()`, the instantiation of `type`
/// fails: the static_assert is the only error, and the compiler prints the fields of `d` beside the error. (g++ 12
/// cannot take the reason from `d` here.)
template <why reason, diagnosis d> struct sound : detail::with_layouts<refusal<reason, d>, d.op, d.held, d.needed> {};
template <diagnosis d>
struct sound<why::refused, d> : detail::with_layouts<detail::own_refusal<d>, d.op, d.held, d.needed> {};

} // namespace constrain
