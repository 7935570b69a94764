#pragma once

#include "constrain/fit/epochs.hpp"

#include "constrain/train/batches.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batches_until(std::int64_t epochs, sample_set const& samples,
                                                          std::uint64_t seed, data::position from,
                                                          std::int64_t sequences, data::tail tail, std::int64_t limit) {
  batch_source source(samples, seed, from, sequences, tail, 0, 1);
  if (from.epoch >= epochs) return 0;
  // A batch_source skips batches without a valid label. If any sample has no valid label, count batches one by one.
  auto const size = samples.size();
  __extension__ using wide = __int128; // the products below can exceed 64 bits
  if (!samples.every_sample_has_a_label()) {
    constexpr wide most = wide{1} << 36; // samples that can be counted in hours
    if (wide{epochs - from.epoch} * size > most && wide{limit} * sequences > most)
      throw error({"batches_until: ", epochs, " epochs of ", counted(size, "sample"),
                   " are too many to count one by one, as samples without labels require; give fewer epochs, or a "
                   "number of steps"});
    return source.count_before(epochs, limit);
  }
  auto const in = [&](wide n) { return tail == data::tail::drop ? n / sequences : (n + sequences - 1) / sequences; };
  wide const whole_epochs = epochs - from.epoch - 1, rest = size - from.sample;
  wide const count = tail == data::tail::carry ? in(whole_epochs * size + rest) : whole_epochs * in(size) + in(rest);
  return static_cast<std::int64_t>(std::min<wide>(count, limit));
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batches_until(std::int64_t epochs, data::corpus const& corpus,
                                                          std::uint64_t seed, data::position from,
                                                          std::int64_t sequences, std::int64_t tokens, data::tail tail,
                                                          std::int64_t limit) {
  return batches_until(epochs, samples_in(corpus, tokens), seed, from, sequences, tail, limit);
}

} // namespace constrain
