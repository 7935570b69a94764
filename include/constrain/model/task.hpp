#pragma once

#include "constrain/model/is_model.hpp"
#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/copy/copy.hpp"
#include "constrain/program/value.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How much one forward and backward pass takes at a time.
struct micro_batch {
  int sequences = 1; // per micro-batch
  int tokens = 0;    // of a sequence; 0: the model's context
};

/// What a trainer's plan consists of: one program for each thing that it does.
enum class entry { step, evaluate, predict, generate };

namespace detail {

/// Whether a task's forward program is a constant.
template <class task> concept constant_program = requires {
  typename std::bool_constant<(static_cast<void>(task::write(entry::step, dtype::f32)), true)>;
};

/// The program of a task that cannot be written: it holds the reason, and one number for all that a plan looks at.
constexpr program refused_program(diagnosis const& reason) {
  builder b;
  b.program.fail(reason);
  ref const stand_in{b.new_value({dtype::f32, shape(1, 1, 1)}, role::result, 0), at::current};
  b.program.tokens = b.program.labels = b.program.logits = b.program.loss = b.program.correct = stand_in;
  return b.program;
}

} // namespace detail

/// A model (a function on values: tokens [sequences, tokens] -> logits [..., classes]), an objective (a type whose
/// function on logits and labels gives the loss) and the micro-batch.
template <auto model, class objective_, micro_batch batch> struct task {
  using objective = objective_;
  static constexpr auto architecture = model;

  static constexpr std::int64_t said_tokens = [] {
    if constexpr (requires { model.context; }) return batch.tokens == 0 ? model.context : batch.tokens;
    else return batch.tokens;
  }();
  // At least 1, so that a micro-batch that holds nothing is one sentence and no other error.
  static constexpr std::int64_t sequences = batch.sequences < 1 ? 1 : batch.sequences;
  static constexpr std::int64_t tokens = said_tokens < 1 ? 1 : said_tokens;

  /// The forward program of an entry, with parameters and activations of type `real`; one that holds a failure where it
  /// cannot be written.
  static constexpr program build(entry e, dtype real) {
    if constexpr (batch.sequences < 1 || said_tokens < 1)
      return detail::refused_program({why::micro_batch_is_empty, 0, 0, batch.sequences, said_tokens});
    else if constexpr (!is_model<decltype(model)>) return detail::refused_program({why::model_is_no_function});
    else if constexpr (!is_objective<objective>) return detail::refused_program({why::objective_is_no_function});
    else if constexpr (!detail::constant_program<task>) return detail::refused_program({why::model_is_not_constant});
    else return write(e, real);
  }

  /// The same of a model and an objective that can be asked for it.
  static constexpr program write(entry e, dtype real) {
    builder b;
    b.real = real;
    auto const rows = e == entry::generate ? 1 : sequences;
    ref const tokens_in{b.new_value({dtype::i32, shape(rows, tokens)}, role::input, 0), at::current};
    b.program.tokens = tokens_in;
    value const logits = model(value{b, tokens_in});
    b.program.logits = logits.where();
    b.check_reach(logits.where(), logits.info().line);
    if (logits.type() == dtype::i32) b.program.fail({why::ids_are_no_numbers, logits.info().line});
    if (e == entry::predict || e == entry::generate) {
      b.program.logits = observe(logits, b.new_value({logits.type(), logits.shape()}, role::result, 0));
      return b.program;
    }
    auto const label_shape = logits.shape().rank < 1 ? shape{} : logits.shape().without(logits.shape().rank - 1);
    value const labels{b, {b.new_value({dtype::i32, label_shape}, role::input, 0), at::current}};
    b.program.labels = labels.where();
    value const loss = objective{}(logits, labels);
    if (loss.shape().elements() != 1) b.program.fail({why::loss_is_not_a_scalar, 0, 0, 1, loss.shape().elements()});
    b.program.loss = observe(loss, b.new_value({loss.type(), loss.shape()}, role::result, 0));
    b.program.values[b.program.loss.value].accumulates = true;
    b.program.values[b.program.loss.value].axes = {};
    if (e == entry::evaluate) {
      b.program.correct = emit<op::correct_predictions>({logits, labels}, {}, 0).where();
      b.program.values[b.program.correct.value].role = role::result;
    }
    return b.program;
  }

private:
  /// Copies a value to where the host reads it.
  static constexpr ref observe(value v, int result) {
    node n;
    n.inputs.push_back(v.where());
    n.outputs.push_back({result, at::current});
    static_assert(sizeof(detail::named<op::copy>) > 0);
    v.owner().check_reach(v.where(), v.info().line);
    v.owner().append(info_of<op::copy>, n);
    return {result, at::current};
  }
};

/// What a trainer can be made of: ct::task, or a type of one's own that offers the same.
template <class type> concept is_task = requires(entry e, dtype real) {
  typename type::objective;
  type::sequences + type::tokens;
  type::build(e, real).failure;
};

namespace detail {

/// Stands in for what is no task, so that one sentence says so.
struct no_task {
  using objective = void;
  static constexpr int architecture = 0;
  static constexpr std::int64_t sequences = 1, tokens = 1;
  static constexpr program build(entry, dtype) { return refused_program({why::task_is_none}); }
};

template <class type> struct task_or_refusal { using task = no_task; };
template <is_task type> struct task_or_refusal<type> { using task = type; };

} // namespace detail

} // namespace constrain
