#pragma once

#include "constrain/data/order.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/dataset.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The number of batches that begin at or after position `start` and before epoch number `epochs` (counted from 0); at
/// most `limit`, and 0 if `start` is not before that epoch. Batches without a valid label do not count. A batch has
/// `sequences` samples over all ranks. `seed` determines the order of samples. `tail`: what happens to the last samples
/// of an epoch if they do not fill a batch. Throws as the constructor of `batch_source` does, and throws `error` if a
/// sample has no valid label and counting the batches one by one would take more than about ten minutes. `caller`: the
/// first words of every error.
[[gnu::cold]] std::int64_t batches_until(std::int64_t epochs, sample_set const& samples, std::uint64_t seed,
                                         data::position start, std::int64_t sequences, data::tail tail,
                                         std::int64_t limit = std::numeric_limits<std::int64_t>::max(),
                                         char const* caller = "batches_until");
/// `batches_until` for a corpus, with samples of `tokens` tokens. Also throws `error` as `samples_in` does.
[[gnu::cold]] std::int64_t batches_until(std::int64_t epochs, data::corpus const& corpus, std::uint64_t seed,
                                         data::position start, std::int64_t sequences, std::int64_t tokens,
                                         data::tail tail,
                                         std::int64_t limit = std::numeric_limits<std::int64_t>::max());

namespace detail {

/// Throws the error, which begins with `caller`, for epochs of `samples` that would give a run no step.
[[noreturn, gnu::cold]] void refuse_epochs_without_a_step(char const* caller, std::int64_t epochs,
                                                          sample_set const& samples);

} // namespace detail

/// The optimizer step, counted from the start of the run, after which `epochs` epochs of a data set have been read; at
/// most `limit`, but at least the number of steps already done. If the last steps read other data, the epochs of this
/// data set are counted from its beginning. `caller`: the first words of every error. Throws as `batches_until` does,
/// and throws `error` if the epochs, counted from the beginning of the data set, have no step, although `limit` allows
/// one.
template <class trainer>
std::int64_t steps_of_epochs(trainer const& t, std::int64_t epochs, sample_set const& samples, data::tail tail,
                             std::int64_t limit, char const* caller = "steps_of_epochs") {
  auto const& state = t.state();
  auto const start = state.corpus == samples.fingerprint() ? state.position : data::position{};
  auto const completed_steps = t.steps().count();
  auto const steps_left = std::max<std::int64_t>(limit - completed_steps, 0);
  auto const steps =
      batches_until(epochs, samples, state.seed, start,
                    trainer::micro_batches * trainer::task::sequences * t.data_ranks(), tail, steps_left, caller);
  if (steps == 0 && epochs > 0 && steps_left > 0 && start == data::position{})
    detail::refuse_epochs_without_a_step(caller, epochs, samples);
  return completed_steps + steps;
}
/// `steps_of_epochs` for a corpus or examples. Also throws `error` if the data does not fit the trainer.
template <class trainer, data::is_dataset dataset>
std::int64_t steps_of_epochs(trainer const& t, std::int64_t epochs, dataset const& d, data::tail tail,
                             std::int64_t limit) {
  return constrain::steps_of_epochs(t, epochs, detail::samples_of<trainer, true>("steps_of_epochs", d), tail, limit);
}

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/epochs.ipp"
#endif
