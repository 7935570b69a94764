#pragma once

#include "constrain/fit/callbacks.hpp"
#include "constrain/fit/options.hpp"
#include "constrain/fit/training_run.hpp"
#include "constrain/train/trainer.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

template <class task, class... list> class inference;

namespace detail {

/// Whether a type is a ct::inference<...>.
template <class type> inline constexpr bool is_inference = false;
template <class task, class... list> inline constexpr bool is_inference<inference<task, list...>> = true;

} // namespace detail

/// Trains on a corpus or on examples: `fit(t, data::text("corpus.txt"), {.steps = 500})`. Prints progress lines,
/// evaluates, saves the run and writes records as `options` specify. Collective: all ranks call it. `fit` is equivalent
/// to a hand-written loop over `t.batches` and `t.step`, and uses the trainer's arena. After `fit` has checked its
/// options and data, SIGINT and SIGTERM end the run before the first step, after the current step or during an
/// evaluation. When neither a step nor an evaluation is left, a signal sets the stop reason; if `fit` notices the
/// signal before it loads the best weights (`.load_best`), it does not load them. After a signal that ends the run,
/// `fit` saves the run if this call has taken a step and `.directory` is set. If a signal prevented an evaluation that
/// was due, `fit` makes up for it before the first step when the run is resumed.
///
/// On a CUDA device, `fit` reads the result of a step after it has enqueued the next step, so that the device need not
/// wait for the host; progress lines appear one step late. With a callback, `.records` or precision::fp16, and after
/// steps at which `fit` evaluates, saves or ends, `fit` reads the result before the next step. Both orders give
/// bit-identical results.
///
/// The callback `callback_object` runs on every rank. It is a function, an object with any of the members on_start,
/// on_step, on_evaluation, on_save and on_end, or both. `fit` does not copy it, and calls the function after every step
/// with a `step_result const&` or a `fit_context&`; a result of false stops the run. Each of the members takes a
/// `fit_context&`. on_save is called after every save, including saves to `.best`. on_end is called last, unless an
/// exception ended the run. Only on_end may take steps or load a run.
///
/// Throws `error` for options that are out of range, contradict one another or need an option that is not set, for data
/// that does not fit the trainer, for `.epochs` without a step (if `tail::drop` drops every sample with a valid label)
/// or with too many batches to count, for files that cannot be written, for a `.best` without the best weights of this
/// run (`.load_best`), and for data, training states or options (except `.log`, `.log_every` and `.records`) that
/// differ between ranks. Also throws the errors of `trainer::batches` and of its range, `step`, `evaluate`, `save`,
/// `load_pretrained` and `load_tensors` (`.load_best`) and `scale_learning_rate` (`.plateau`), callbacks' exceptions,
/// and `error` after a callback that has taken a step or loaded a run with another number of steps. If only some ranks
/// throw, the job is aborted.
template <class trainer, class callback = no_callback, data::is_dataset dataset>
fit_result fit(trainer& t, dataset const& d, fit_options options = {}, callback&& callback_object = {}) {
  using callback_type = std::remove_reference_t<callback>;
  constexpr bool is_inference = detail::is_inference<std::remove_const_t<trainer>>;
  static_assert(!is_inference, "fit: an inference object cannot be trained; pass a ct::trainer<task, policies...>");
  static_assert(is_inference || !std::is_const_v<trainer>,
                "fit: the trainer is const, but training changes it; declare it without const");
  if constexpr (is_inference || std::is_const_v<trainer>) {
    return {};
  } else if constexpr (std::is_function_v<callback_type>) {
    auto* pointer = &callback_object;
    auto const callbacks = detail::callbacks_of(pointer);
    return detail::training_run<trainer, dataset>(t, d, options, callbacks).run();
  } else {
    auto const callbacks = detail::callbacks_of<callback_type>(callback_object);
    return detail::training_run<trainer, dataset>(t, d, options, callbacks).run();
  }
}

} // namespace constrain
