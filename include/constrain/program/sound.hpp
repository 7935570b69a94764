#pragma once

#include "constrain/program/diagnosis.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// A sentence for every reason: what, where, what to write instead. The compiler prints the diagnosis' numbers beside it.
#define CONSTRAIN_REASONS(reason)                                                                                      \
  reason(task_is_none, "trainer: its first argument is no task; write ct::trainer<ct::task<model, objective, "         \
                       "ct::micro_batch{.sequences = 8}>, policies...>")                                               \
  reason(model_is_no_function, "task: the model is no function on values; give its type "                              \
                               "`constexpr ct::value operator()(ct::value tokens) const` that returns the logits")     \
  reason(objective_is_no_function, "task: the objective is no function on values; give its type "                      \
                                   "`constexpr ct::value operator()(ct::value logits, ct::value labels) const`, or "   \
                                   "write ct::causal_lm or ct::classification")                                        \
  reason(model_is_not_constant, "task: the model or the objective cannot be computed while it compiles; make every "   \
                                "layer and function they call `constexpr`, and let none throw, overflow, divide by "   \
                                "zero or use an empty ct::value. `constexpr auto program = "                           \
                                "task::write(ct::entry::step, ct::dtype::f32);` makes the compiler name the place")    \
  reason(micro_batch_is_empty, "task: a micro-batch needs sequences and tokens; write ct::micro_batch{.sequences = 8, "\
                               ".tokens = 32} (tokens may be left out where the model has a `context`)")               \
  reason(program_too_large, "the model is too large a program; put equal layers into one ct::repeat, which holds "     \
                            "its body once")                                                                           \
  reason(extent_below_one, "an extent is `got`, and `expected` is the least: give the model's layers, widths, "        \
                           "vocabulary, context and classes 1 or more")                                                \
  reason(tensor_too_large, "a tensor has more than `expected` elements in all iterations and micro-batches; make its " \
                           "extents smaller (`got` is one of them)")                                                   \
  reason(widths_differ, "two shapes that must be equal differ: `expected` and `got` are the innermost extents that "   \
                        "do; make the widths equal, for example with a ct::linear between them")                       \
  reason(ranks_differ, "two shapes that must be equal have `expected` and `got` dimensions; bring both values to one " \
                       "rank, for example take the ct::mean of both or of neither")                                    \
  reason(ids_are_no_numbers, "the operation computes with real numbers, and the model's tokens are ids: pass them "    \
                             "through ct::embedding first")                                                            \
  reason(not_a_matrix_of_features, "ct::linear needs a value with features; pass [..., features]")                     \
  reason(weight_is_no_matrix, "a weight or table must be a matrix, [out, in] or [vocabulary, width]; this one has "    \
                              "`got` dimensions")                                                                      \
  reason(heads_do_not_divide_the_width, "ct::attention: `got` heads do not divide the width `expected`; "              \
                                        "choose heads that divide it")                                                 \
  reason(qkv_is_not_three_times_the_width, "ct::attention needs queries, keys and values side by side: a width that "  \
                                           "is a multiple of 3, such as ct::linear(..., 3 * x.features())")            \
  reason(tokens_are_not_integers, "ct::embedding looks up integers: pass the model's tokens")                          \
  reason(sequence_longer_than_context, "the sequence of `got` tokens is longer than the context of `expected`; "       \
                                       "lower micro_batch::tokens or raise the model's context")                       \
  reason(labels_do_not_fit_the_logits, "ct::cross_entropy needs one integer label per row of logits: logits "          \
                                       "[..., classes], labels [...]")                                                 \
  reason(logits_have_no_tokens, "ct::causal_lm needs logits [sequences, tokens, vocabulary], and these have `got` "    \
                                "dimensions or other tokens; return a row for every token, or use ct::classification " \
                                "for one label a sequence")                                                            \
  reason(axis_is_not_there, "the value has `got` dimensions where `expected` are needed; pass [sequences, tokens, "    \
                            "features]")                                                                               \
  reason(repeat_changes_the_shape, "the body of ct::repeat must return the shape it is given; put what changes it "    \
                                   "before or after the repeat")                                                       \
  reason(repeat_of_nothing, "ct::repeat needs at least one trip; write `repeat(name, 1 or more, ...)`")                \
  reason(repeat_ignores_its_input, "the body of ct::repeat does not use its argument; compute from it, for example "   \
                                   "x + layer(x)")                                                                     \
  reason(value_left_its_repeat, "a value made in a repeat's body (line `expected`) is used outside of it (line `got`), "\
                                "where it is not one value but one an iteration; return it from the body and use what "\
                                "ct::repeat returns, or compute it outside")                                           \
  reason(values_of_two_programs, "an operation mixes values of two models; use values of one model alone")             \
  reason(role_of_no_parameter, "ct::parameter takes the role of a parameter: ct::role::weight, bias, norm, embedding, "\
                               "head or frozen")                                                                       \
  reason(loss_is_not_a_scalar, "the objective must return one number; end it with ct::cross_entropy")                  \
  reason(no_gradient_rule, "an operation between a trained parameter and the loss has no gradient rule; give its op "  \
                           "a `static constexpr void gradient(ct::backward&)`")                                        \
  reason(gradient_has_another_shape, "an op's gradient rule gives an input of `expected` elements a gradient of "      \
                                     "`got`; give each input a gradient of its own shape")                             \
  reason(parameter_without_path_to_the_loss, "a trainable parameter does not reach the loss; use it in the model's "   \
                                             "result or give it ct::role::frozen")                                     \
  reason(parameter_named_twice, "two parameters have one name (`expected` and `got` are their lines); give each layer "\
                                "of a scope a name of its own")                                                        \
  reason(too_many_operands, "an operation has more operands than a node holds (8 inputs); split it")                   \
  reason(read_before_written, "a value is read before it is written; this is a mistake in a pass")                     \
  reason(loops_do_not_nest, "loops and ends do not match; this is a mistake in a pass")                                \
  reason(shape_is_not_what_the_rule_says, "an op writes a value of another type or shape than its rule says; in an op "\
                                          "of your own, `infer` must follow the types of its inputs (bf16 under "      \
                                          "precision::bf16) and `gradient` must name for each output the input whose " \
                                          "gradient it is")                                                            \
  reason(partial_sum_is_read, "a gradient is read before it is summed over the ranks; this is a mistake in a pass")    \
  reason(shard_is_read, "an operation reads a rank's piece of a parameter as if it were the whole; this is a mistake " \
                        "in a pass")

/// The sentence of a reason.
constexpr char const* sentence_of(why reason) {
  switch (reason) {
#define CONSTRAIN_SENTENCE(name, sentence) case why::name: return sentence;
    CONSTRAIN_REASONS(CONSTRAIN_SENTENCE)
#undef CONSTRAIN_SENTENCE
  case why::nothing: break;
  }
  return "";
}

/// Refuses a program that has failed: one static_assert fires, with its sentence; the diagnosis is the argument.
template <diagnosis d> struct program_is_sound {
#define CONSTRAIN_ASSERT(name, sentence) static_assert(d.reason != why::name, sentence);
  CONSTRAIN_REASONS(CONSTRAIN_ASSERT)
#undef CONSTRAIN_ASSERT
  static constexpr bool value = d.ok();
};

} // namespace constrain
