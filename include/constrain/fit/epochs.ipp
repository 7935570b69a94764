#pragma once

#include "constrain/fit/epochs.hpp"

#include "constrain/train/batches.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batches_until(std::int64_t epochs, data::corpus const& corpus,
                                                          std::uint64_t seed, data::position from,
                                                          std::int64_t sequences, std::int64_t tokens, data::tail tail,
                                                          std::int64_t limit) {
  auto const samples = data::samples(corpus.size(), tokens);
  batch_source source(corpus, seed, from, sequences, tokens, tail, 0, 1);
  if (from.epoch >= epochs) return 0;
  // A batch_source skips batches without any label: if a sample has no label, batches must be counted one by one.
  bool every_batch_counts = true;
  bool const all_are_labels = corpus.labels(1, samples * tokens) == samples * tokens;
  for (std::int64_t s = all_are_labels ? samples : 0; s < samples && every_batch_counts; ++s)
    every_batch_counts = corpus.labels(s * tokens + 1, tokens) > 0;
  if (!every_batch_counts) return source.count_before(epochs, limit);
  __extension__ using wide = __int128; // the products below can exceed 64 bits
  auto const in = [&](wide n) { return tail == data::tail::drop ? n / sequences : (n + sequences - 1) / sequences; };
  wide const whole_epochs = epochs - from.epoch - 1, rest = samples - from.sample;
  wide const count =
      tail == data::tail::carry ? in(whole_epochs * samples + rest) : whole_epochs * in(samples) + in(rest);
  return static_cast<std::int64_t>(std::min<wide>(count, limit));
}

} // namespace constrain
