#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/data/order.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/batches.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Number of batches of `sequences` samples (over all ranks) from position `from` that begin before `epochs` epochs are
/// complete, at most `limit`. `tail`: what happens to samples at an epoch's end that do not fill a batch. Throws
/// `error` if the corpus gives no batch.
[[gnu::noinline, gnu::cold]] inline std::int64_t batches_until(
    std::int64_t epochs, data::corpus const& corpus, std::uint64_t seed, data::position from, std::int64_t sequences,
    std::int64_t tokens, data::tail tail, std::int64_t limit = std::numeric_limits<std::int64_t>::max()) {
  auto const samples = data::samples(corpus.size(), tokens);
  batch_source source(corpus, seed, from, sequences, tokens, tail, 0, 1);
  if (from.epoch >= epochs) return 0;
  // Batches without any label are skipped: if a sample has none, batches must be counted one by one.
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

/// Total optimizer steps, those already done included, after which `epochs` epochs of a corpus have been read; at most
/// `limit` (or the steps already done, if more).
template <class trainer>
std::int64_t steps_of_epochs(trainer const& t, std::int64_t epochs, data::corpus const& corpus, data::tail tail,
                             std::int64_t limit) {
  auto const& state = t.state();
  auto const from = state.corpus == corpus.fingerprint() ? state.position : data::position{};
  auto const done = t.steps().count();
  return done + batches_until(epochs, corpus, state.seed, from,
                              trainer::micro_batches * trainer::task::sequences * t.ranks(), trainer::task::tokens,
                              tail, std::max<std::int64_t>(limit - done, 0));
}

} // namespace constrain
