#pragma once

#include "constrain/fit/epochs.hpp"

#include "constrain/train/batches.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batches_until(std::int64_t epochs, sample_set const& samples,
                                                          std::uint64_t seed, data::position start,
                                                          std::int64_t sequences, data::tail tail, std::int64_t limit) {
  batch_source source(samples, seed, start, sequences, tail, 0, 1);
  if (start.epoch >= epochs) return 0;
  // A batch_source skips batches without a valid label. If any sample has no valid label, count batches one by one.
  auto const size = samples.size();
  __extension__ using int128 = __int128; // the products below can exceed 64 bits
  if (!samples.every_sample_has_a_label()) {
    constexpr int128 maximum_samples = int128{1} << 36; // samples that can be counted in hours
    if (int128{epochs - start.epoch} * size > maximum_samples && int128{limit} * sequences > maximum_samples)
      throw error({"batches_until: ", epochs, " epochs of ", counted(size, "sample"),
                   " are too many to count one by one, which is necessary because a sample has no valid label; give "
                   "fewer epochs, or a number of steps"});
    return source.count_before(epochs, limit);
  }
  auto const batches_in = [&](int128 n) {
    return tail == data::tail::drop ? n / sequences : (n + sequences - 1) / sequences;
  };
  int128 const complete_epochs = epochs - start.epoch - 1, remaining = size - start.sample;
  int128 const count = tail == data::tail::carry ? batches_in(complete_epochs * size + remaining)
                                                 : complete_epochs * batches_in(size) + batches_in(remaining);
  return static_cast<std::int64_t>(std::min<int128>(count, limit));
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batches_until(std::int64_t epochs, data::corpus const& corpus,
                                                          std::uint64_t seed, data::position start,
                                                          std::int64_t sequences, std::int64_t tokens, data::tail tail,
                                                          std::int64_t limit) {
  return batches_until(epochs, samples_in(corpus, tokens), seed, start, sequences, tail, limit);
}

} // namespace constrain
