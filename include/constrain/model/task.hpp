#pragma once

#include "constrain/model/is_model.hpp"
#include "constrain/model/is_objective.hpp"
#include "constrain/model/refusals.hpp"
#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/class_counts/class_counts.hpp"
#include "constrain/op/copy/copy.hpp"
#include "constrain/op/refusals.hpp"
#include "constrain/program/value.hpp"

#include <cstddef>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The size of a micro-batch, the data of one forward and backward pass.
struct micro_batch {
  int sequences = 1; // sequences in the micro-batch
  int tokens = 0;    // tokens of each sequence; 0: the model's context. Without a context, 0 means 1 if no input has
                     // one entry per token, and is refused otherwise
  int evaluation_sequences = 0; // sequences in a micro-batch of `evaluate`; 0: as many as `sequences`
};

/// The entry programs of a trainer: `step` (forward, backward, update), `evaluate` (the loss; if the first label array
/// holds classes, also the number of correct predictions and, if the objective lists metrics, the counts by class),
/// `predict` (logits of a micro-batch) and `generate` (logits of one sequence).
enum class entry { step, evaluate, predict, generate };

namespace detail {

/// Whether an objective has metrics (model/metric/metrics.hpp).
template <class objective> concept lists_metrics = requires { typename objective::metrics; };

/// Whether a task's forward program is a constant expression.
template <class task> concept constant_program = requires {
  typename std::bool_constant<(static_cast<void>(task::write(entry::step, dtype::f32)), true)>;
};

/// The program of a refused task. It contains the error, and placeholders for the values that later passes look up.
constexpr program refused_program(diagnosis const& reason) {
  builder b;
  b.program.fail(reason);
  ref const placeholder{b.new_value({dtype::f32, shape(1, 1, 1)}, role::result, 0), at::current};
  b.program.set_port({port_kind::input, {.name = "tokens"}, placeholder});
  b.program.set_port({port_kind::label, {.name = "labels"}, placeholder});
  b.program.set_result("logits", placeholder), b.program.set_result("loss", placeholder);
  return b.program;
}

/// f(values[i]...) for the indices i.
template <class function, std::size_t... i>
constexpr value call_with(function const& f, value const* values, std::index_sequence<i...>) {
  return f(values[i]...);
}

/// The shape of a port's tensor in one micro-batch, without the dimension of its features. `logits`: the shape of the
/// logits, which only labels need.
constexpr shape shape_of(port_spec const& spec, std::int64_t sequences, std::int64_t tokens, shape const& logits) {
  shape s = logits;
  if (spec.each == per::sequence) s = shape(sequences);
  if (spec.each == per::token) s = shape(sequences, tokens);
  if (spec.each == per::row) s = logits.rank < 1 ? shape{} : logits.without(logits.rank - 1);
  return s;
}

} // namespace detail

/// A training task. `model`: a function on values that maps tokens [sequences, tokens], or the inputs that the model
/// lists, to logits, usually [..., classes]. `objective_`: the type of a function from logits and labels to the loss.
/// `batch`: the size of a micro-batch.
template <auto model, class objective_, micro_batch batch> struct task {
  using objective = objective_;               // the type of the objective
  static constexpr auto architecture = model; // the model

  /// The model's inputs. If the model lists none, `model` is not evaluated here: nvcc would report further errors for a
  /// model that does not compile, for example one with a misspelled field.
  static constexpr port_specs inputs = [] {
    if constexpr (detail::lists_inputs<decltype(model)>) return inputs_of(model);
    else return detail::only_tokens();
  }();
  static constexpr port_specs labels = labels_of<objective>(); // the objective's label arrays

  /// Tokens per sequence: `batch.tokens` or, if it is 0, the model's `context`. If `batch.tokens` is 0 and the model
  /// has no `context`: 1 if no input has one entry per token, otherwise 0 (an error).
  static constexpr std::int64_t requested_tokens = []() -> std::int64_t {
    if constexpr (requires { model.context; }) return batch.tokens == 0 ? model.context : batch.tokens;
    bool per_token = false;
    for (auto const& input : inputs) per_token = per_token || input.each == per::token;
    return batch.tokens == 0 && !per_token ? 1 : batch.tokens;
  }();
  /// The number of sequences in a micro-batch, and of tokens per sequence. Both are at least 1, so that an empty
  /// micro-batch causes only one error.
  static constexpr std::int64_t sequences = batch.sequences < 1 ? 1 : batch.sequences;
  static constexpr std::int64_t tokens = requested_tokens < 1 ? 1 : requested_tokens;
  /// The number of sequences in a micro-batch of `evaluate`.
  static constexpr std::int64_t evaluation_sequences =
      batch.evaluation_sequences < 1 ? sequences : batch.evaluation_sequences;

  /// The forward program of an entry, with parameters and activations of type `real`. If the program cannot be built,
  /// the result holds the error.
  static constexpr program build(entry e, dtype real) {
    if constexpr (!is_model<decltype(model)> && !detail::takes_any_count<decltype(model)>)
      return detail::refused_program(diagnosis_with<refusals::model_is_not_a_function>());
    else if constexpr (batch.evaluation_sequences < 0)
      return detail::refused_program(
          diagnosis_with<refusals::evaluation_sequences_are_negative>(0, 0, 0, batch.evaluation_sequences));
    else if constexpr (batch.sequences < 1 || requested_tokens < 1)
      return detail::refused_program(
          diagnosis_with<refusals::micro_batch_is_empty>(0, 0, batch.sequences, requested_tokens));
    else if constexpr (!detail::takes_values<decltype(model), inputs.size()>)
      return detail::refused_program(diagnosis_with<refusals::inputs_do_not_fit_the_model>(0, 0, 0, inputs.size()));
    else if constexpr (!detail::are_valid(inputs, true) || !detail::are_valid(labels, false))
      return detail::refused_program(diagnosis_with<refusals::port_is_invalid>());
    else if constexpr (!is_objective<objective>)
      return detail::refused_program(diagnosis_with<refusals::objective_is_not_a_function>());
    else if constexpr (!detail::constant_program<task>)
      return detail::refused_program(diagnosis_with<refusals::model_is_not_constant>());
    else return write(e, real);
  }

  /// Builds the program of an entry without the checks of `build`: the model and the objective must be functions on
  /// values.
  static constexpr program write(entry e, dtype real) {
    auto const rows = e == entry::generate ? 1 : e == entry::evaluate ? evaluation_sequences : sequences;
    auto b = write_model(rows, real);
    value const logits{b, b.program.result("logits")};
    value label_values[maximum_ports];
    if (e == entry::predict || e == entry::generate) {
      b.program.set_result("logits", observe(logits, b.new_value({logits.type(), logits.shape()}, role::result, 0)));
      return b.program;
    }
    for (int i = 0; i < labels.size(); ++i)
      label_values[i] = add_port(b, port_kind::label, labels[i], rows, logits.shape());
    value const loss = detail::call_with([&](auto... each_label) { return objective{}(logits, each_label...); },
                                         label_values, std::make_index_sequence<labels.size()>{});
    // If an op of the objective limits such labels to another number of values than there are logits in a row, for
    // example to the rows of a table, the labels are not classes of the logits.
    auto const limit = first_labels_are_ids_of_rows ? b.program.nth(port_kind::label, 0).limit : 0;
    bool const are_classes = first_labels_are_ids_of_rows && (limit == 0 || limit == logits.features());
    if (are_classes) b.program.limit(label_values[0].where(), logits.features(), true);
    if (loss.shape().elements() != 1)
      b.program.fail(diagnosis_with<refusals::loss_is_not_a_scalar>(0, 0, 1, loss.shape().elements()));
    ref const observed = observe(loss, b.new_value({loss.type(), loss.shape()}, role::result, 0));
    b.program.set_result("loss", observed);
    // A step with several micro-batches sums their losses (pass/accumulate.hpp).
    b.program.values[observed.value].accumulates = true;
    b.program.values[observed.value].axes = {};
    if (e == entry::evaluate && are_classes) {
      ref const correct = emit<op::correct_predictions>({logits, label_values[0]}, {}, 0).where();
      b.program.set_result("correct", correct);
      b.program.values[correct.value].role = role::result;
      if constexpr (detail::lists_metrics<objective>) {
        ref const counts = emit<op::class_counts>({logits, label_values[0]}, {}, 0).where();
        b.program.set_result("class_counts", counts);
        b.program.values[counts.value].role = role::result;
      }
    }
    return b.program;
  }

private:
  /// A builder with the part of a program that the entries share: the inputs for `rows` sequences, and the model. g++
  /// evaluates this function once for all entries with the same number of sequences.
  static constexpr builder write_model(std::int64_t rows, dtype real) {
    builder b;
    b.real = real;
    b.checks_one_instance = true;
    value input_values[maximum_ports];
    for (int i = 0; i < inputs.size(); ++i) input_values[i] = add_port(b, port_kind::input, inputs[i], rows, {});
    value const logits = detail::call_with(model, input_values, std::make_index_sequence<inputs.size()>{});
    b.program.set_result("logits", logits.where());
    check_returned(logits);
    for (auto const& info : b.program.values)
      if (info.per_run) b.program.fail(diagnosis_with<refusals::model_reads_label_count>(info.line));
    if (logits.type() == dtype::i32) b.program.fail(diagnosis_with<op::integers_instead_of_floats>(logits.info().line));
    return b;
  }

  /// Whether the first labels are one integer per row of logits, such as a class.
  static constexpr bool first_labels_are_ids_of_rows =
      !labels.empty() && labels[0].type == port_type::ids && labels[0].each == per::row && labels[0].features == 0;

  /// Adds the value of an input or label, and its port. `rows`: the number of sequences in the entry's program.
  /// `logits`: the shape of the logits, which only labels need.
  static constexpr value add_port(builder& b, port_kind kind, port_spec const& spec, std::int64_t rows, shape logits) {
    auto const type = spec.type == port_type::ids ? dtype::i32 : b.real;
    auto s = detail::shape_of(spec, rows, tokens, logits);
    if (spec.features > 0 && s.rank == shape::maximum_rank)
      b.program.fail(diagnosis_with<op::too_many_dimensions>(0, 0, s.rank, s.rank + 1));
    else if (spec.features > 0) s.extent[s.rank++] = spec.features;
    value const port_value{b, {b.new_value({type, s}, role::input, 0), at::current}};
    // An op that uses labels as indices and does not skip `ignored_label`, such as `embedding`, sets `ignorable` to
    // false.
    b.program.set_port({kind, spec, port_value.where(), 0, kind == port_kind::label && spec.type == port_type::ids});
    return port_value;
  }

  /// Refuses `v` as the result of the model or of the objective if `v` is computed in the body of a repeat.
  static constexpr void check_returned(value v) {
    if (!is_in_reach(v.owner().program, v.where(), {}))
      v.owner().program.fail(diagnosis_with<refusals::value_of_a_repeat_is_returned>(v.info().line));
  }
  /// Copies `v` to the value with index `result`, which the host reads. Returns a reference to the copy.
  static constexpr ref observe(value v, int result) {
    ref const out{result, at::current};
    check_returned(v);
    v.owner().call<op::copy>({v.where()}, {out});
    return out;
  }
};

/// A type that ct::trainer accepts as its task: ct::task, or another type with the members below. The optional member
/// `architecture` is the model; saved runs and `load_pretrained` use the model's weight format. The optional member
/// `evaluation_sequences` is the number of sequences in a micro-batch of `evaluate`; by default, `sequences`.
template <class type> concept is_task = requires(entry e, dtype real) {
  typename type::objective;
  type::sequences + type::tokens;
  type::build(e, real).failure;
};

namespace detail {

/// The number of sequences in a micro-batch of `evaluate`: the task's member `evaluation_sequences` or, without it,
/// `sequences`.
template <class task>
inline constexpr std::int64_t evaluation_sequences = [] {
  if constexpr (requires { task::evaluation_sequences; }) return task::evaluation_sequences;
  else return task::sequences;
}();

/// Stands in for a type that is not a task, so that the compiler reports only the error of `refusal`.
template <template <diagnosis> class refusal> struct no_task_for {
  using objective = void;
  static constexpr int architecture = 0;
  static constexpr std::int64_t sequences = 1, tokens = 1;
  static constexpr program build(entry, dtype) { return refused_program(diagnosis_with<refusal>()); }
};

using no_task = no_task_for<refusals::trainer_argument_is_not_a_task>; // for ct::trainer

/// `type`, or `no_task_for<refusal>` if `type` is not a task.
template <class type, template <diagnosis> class refusal = refusals::trainer_argument_is_not_a_task>
struct task_or_refusal {
  using task = no_task_for<refusal>;
};
template <is_task type, template <diagnosis> class refusal> struct task_or_refusal<type, refusal> {
  using task = type;
};

} // namespace detail

} // namespace constrain
