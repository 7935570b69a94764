#pragma once

#include "constrain/fit/epochs.hpp"

#include "constrain/train/batches.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batches_until(std::int64_t epochs, sample_set const& samples,
                                                          std::uint64_t seed, data::position start,
                                                          std::int64_t sequences, data::tail tail, std::int64_t limit,
                                                          char const* caller) {
  batch_source source(samples, seed, start, sequences, tail, 0, 1, caller);
  if (start.epoch >= epochs) return 0;
  auto const size = samples.size();
  __extension__ using int128 = __int128; // the products below can exceed 64 bits
  auto const batches_in = [&](int128 n) {
    return tail == data::tail::drop ? n / sequences : (n + sequences - 1) / sequences;
  };
  int128 const complete_epochs = epochs - start.epoch - 1, remaining = size - start.sample;
  int128 const count = tail == data::tail::carry ? batches_in(complete_epochs * size + remaining)
                                                 : complete_epochs * batches_in(size) + batches_in(remaining);
  auto const at_most = static_cast<std::int64_t>(std::min<int128>(count, limit));
  // A batch_source skips batches without a valid label. If any sample has no valid label, count batches one by one.
  auto const with_labels = samples.samples_with_labels();
  auto const labelled = std::count(with_labels.begin(), with_labels.end(), true);
  if (labelled == size) return at_most;
  // `count_before` draws samples of each batch, in random order, until one has a label: on average size / labelled.
  constexpr int128 maximum_draws = int128{1} << 29; // about ten minutes
  if (std::min(complete_epochs * size + remaining, int128{at_most} * size / labelled) > maximum_draws)
    throw error({caller, ": the batches of ", epochs, epochs == 1 ? " epoch of " : " epochs of ",
                 counted(size, "sample"),
                 " are too many to count one by one, which is necessary because some samples have no valid label and "
                 "a batch of only such samples is skipped; give fewer epochs, a number of steps instead, or only "
                 "samples with a valid label"});
  return source.count_before(epochs, at_most, with_labels);
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batches_until(std::int64_t epochs, data::corpus const& corpus,
                                                          std::uint64_t seed, data::position start,
                                                          std::int64_t sequences, std::int64_t tokens, data::tail tail,
                                                          std::int64_t limit) {
  return batches_until(epochs, samples_in(corpus, tokens), seed, start, sequences, tail, limit);
}

[[noreturn, gnu::cold]] CONSTRAIN_INLINE void detail::refuse_epochs_without_a_step(char const* caller,
                                                                                   std::int64_t epochs,
                                                                                   sample_set const& samples) {
  // With the other tails, every sample is in a batch.
  throw error(
      {caller, ": in ", epochs, epochs == 1 ? " epoch of " : " epochs of ", counted(samples.size(), "sample"),
       ", tail::drop drops every sample that has a valid label, so no step would be taken; give more epochs, or "
       "use tail::carry"});
}

} // namespace constrain
