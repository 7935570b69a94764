#pragma once

#include "constrain/model/is_model.hpp"
#include "constrain/model/is_objective.hpp"
#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/copy/copy.hpp"
#include "constrain/program/value.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The size of one forward and backward pass.
struct micro_batch {
  int sequences = 1; // sequences in the micro-batch
  int tokens = 0;    // tokens of each sequence; 0: the model's context
};

/// The entry programs of a trainer: `step` (forward, backward, update), `evaluate` (loss and correct predictions),
/// `predict` (logits of a micro-batch) and `generate` (logits of one sequence).
enum class entry { step, evaluate, predict, generate };

namespace detail {

/// Whether a task's forward program is a constant expression.
template <class task> concept constant_program = requires {
  typename std::bool_constant<(static_cast<void>(task::write(entry::step, dtype::f32)), true)>;
};

/// The program of a refused task: it holds the error, and a stand-in for every value that later passes look up.
constexpr program refused_program(diagnosis const& reason) {
  builder b;
  b.program.fail(reason);
  ref const stand_in{b.new_value({dtype::f32, shape(1, 1, 1)}, role::result, 0), at::current};
  b.program.tokens = b.program.labels = b.program.logits = b.program.loss = b.program.correct = stand_in;
  return b.program;
}

} // namespace detail

/// What a trainer trains: a model (a function on values: tokens [sequences, tokens] -> logits [..., classes]), an
/// objective (a type: logits and labels -> loss) and the size of a micro-batch.
template <auto model, class objective_, micro_batch batch> struct task {
  using objective = objective_;               // the type of the loss function
  static constexpr auto architecture = model; // the model

  /// Tokens per sequence: from the micro-batch, or else the model's context; 0: neither is given.
  static constexpr std::int64_t said_tokens = [] {
    if constexpr (requires { model.context; }) return batch.tokens == 0 ? model.context : batch.tokens;
    else return batch.tokens;
  }();
  /// The micro-batch's sequences, and tokens per sequence. At least 1, so that an empty micro-batch causes only one
  /// error.
  static constexpr std::int64_t sequences = batch.sequences < 1 ? 1 : batch.sequences;
  static constexpr std::int64_t tokens = said_tokens < 1 ? 1 : said_tokens;

  /// The forward program of an entry, with parameters and activations of type `real`. If a program cannot be built, the
  /// result holds the error.
  static constexpr program build(entry e, dtype real) {
    if constexpr (batch.sequences < 1 || said_tokens < 1)
      return detail::refused_program({why::micro_batch_is_empty, 0, 0, batch.sequences, said_tokens});
    else if constexpr (!is_model<decltype(model)>) return detail::refused_program({why::model_is_no_function});
    else if constexpr (!is_objective<objective>) return detail::refused_program({why::objective_is_no_function});
    else if constexpr (!detail::constant_program<task>) return detail::refused_program({why::model_is_not_constant});
    else return write(e, real);
  }

  /// The same as `build`, without the checks: the model and the objective must be functions on values.
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
  /// Copies `v` to the value with the index `result`, which the host reads.
  static constexpr ref observe(value v, int result) {
    ref const out{result, at::current};
    v.owner().check_reach(v.where(), v.info().line);
    v.owner().call<op::copy>({v.where()}, {out});
    return out;
  }
};

/// What ct::trainer takes as its task: ct::task, or a type of your own with the members below and `architecture` (the
/// model, whose weight format saved runs use).
template <class type> concept is_task = requires(entry e, dtype real) {
  typename type::objective;
  type::sequences + type::tokens;
  type::build(e, real).failure;
};

namespace detail {

/// Stands in for a type that is not a task, so that only one error is reported.
struct no_task {
  using objective = void;
  static constexpr int architecture = 0;
  static constexpr std::int64_t sequences = 1, tokens = 1;
  static constexpr program build(entry, dtype) { return refused_program({why::task_is_none}); }
};

/// `type`, or `no_task` if `type` is not a task.
template <class type> struct task_or_refusal { using task = no_task; };
template <is_task type> struct task_or_refusal<type> { using task = type; };

} // namespace detail

} // namespace constrain
