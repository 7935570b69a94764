#pragma once

#include "constrain/fit/callbacks.hpp"
#include "constrain/fit/options.hpp"
#include "constrain/fit/training_run.hpp"
#include "constrain/train/trainer.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Trains on a corpus: a line a step, validation, checkpoints and records where they are asked for. The same as an own
/// loop over `batches` and `step`, with the same memory. SIGINT and SIGTERM end it after the step, or amid an
/// evaluation, with the checkpoint saved.
///
/// `callback` is called in every process: a function after every step, with `step_result const&` or `fit_context&`,
/// where it returns false that was the last one; or an object with any of on_start, on_step, on_evaluation, on_save and
/// on_end, each of which takes a `fit_context&`. on_evaluation comes after an evaluation, on_save after a checkpoint
/// (`.best` too), on_end last, but not after an exception.
///
/// Throws `error` for options that do not go together and for what the corpus, the files or the steps refuse.
template <class trainer, class callback = no_callback>
fit_result fit(trainer& t, data::corpus const& corpus, fit_options options = {}, callback&& called = {}) {
  using given = std::remove_reference_t<callback>;
  if constexpr (std::is_function_v<given>) {
    auto* pointer = &called;
    auto const callbacks = detail::callbacks_of(pointer);
    return detail::training_run<trainer>(t, corpus, options, callbacks).run();
  } else {
    auto const callbacks = detail::callbacks_of<given>(called);
    return detail::training_run<trainer>(t, corpus, options, callbacks).run();
  }
}

} // namespace constrain
