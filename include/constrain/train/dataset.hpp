#pragma once

#include "constrain/data/dataset.hpp"
#include "constrain/model/task.hpp"
#include "constrain/train/corpus_samples.hpp"
#include "constrain/train/engine.hpp"
#include "constrain/train/example_samples.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The samples that a trainer or an evaluator reads from a corpus. `trains`: true for training, false for evaluation.
/// Throws `error`, with a message that begins with `caller`, if the corpus is too short or if its vocabulary is larger
/// than the model's. Compile-time error if the task needs other inputs or labels. The unnamed parameter matches the
/// overload for examples.
template <class trainer, bool trains>
sample_set samples_of(char const* caller, data::corpus const& corpus, char const* = nullptr) {
  using entries = typename trainer::entries;
  if constexpr (trains) [[maybe_unused]]
    corpus_has_batches<entries::takes_tokens, entries::labels_tokens, entries::accepts_next_tokens> const checked;
  else [[maybe_unused]]
    corpus_is_evaluated<entries::takes_tokens && entries::labels_tokens && entries::accepts_next_tokens> const checked;
  check_vocabulary(caller, corpus.vocabulary(), entries::vocabulary);
  return samples_in(corpus, trainer::task::tokens, caller, entries::pads);
}

/// The samples that a trainer or an evaluator reads from examples. Throws the errors of `samples_in`
/// (example_samples.hpp), which begin with `caller`. `remedy`: as in `samples_in`. The unnamed template parameter is
/// `trains`, which has no effect here.
template <class trainer, bool>
sample_set samples_of(char const* caller, data::examples const& examples,
                      char const* remedy = "split with another validation_fraction or a validation_limit above 0") {
  using entries = typename trainer::entries;
  return samples_in(caller, examples, engine<entries>::template needs<typename entries::evaluate>,
                    evaluation_sequences<typename trainer::task>, remedy);
}

} // namespace constrain::detail
