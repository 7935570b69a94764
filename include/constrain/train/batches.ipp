#pragma once

#include "constrain/train/batches.hpp"

#include "constrain/base/number_check.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE batch_source::batch_source(sample_set samples, std::uint64_t seed, data::position from,
                                                          std::int64_t sequences, data::tail tail, int rank, int ranks)
    : samples_(std::move(samples)), seed_(seed), position_(from), sequences_(sequences), tail_(tail), rank_(rank),
      needed_(ranks * sequences), count_(samples_.size()) {
  check_count("batches", "the number of sequences", sequences, 1);
  if (rank < 0 || rank >= ranks)
    throw error({"batches: rank ", rank, " of ", ranks,
                 " does not exist; give a rank that is at least 0 and below the "
                 "number of ranks"});
  auto const called = samples_.called();
  if (tail > data::tail::pad)
    throw error({"batches: the tail is ", static_cast<int>(tail), "; give tail::carry, tail::drop or tail::pad"});
  if (tail == data::tail::drop && count_ < needed_)
    throw error({"batches: an epoch of the ", called.name, " has ", counted(count_, "sample"), ", but a batch takes ",
                 needed_, ", so tail::drop would leave none; give ", called.more, " or use tail::carry"});
  if (tail == data::tail::pad && !samples_.pads())
    throw error("batches: tail::pad ignores the labels of the padding, but floating-point labels, and labels "
                "that an op indexes by, cannot be ignored; use tail::carry or tail::drop");
  if (from.epoch < 0 || from.sample < 0 || from.sample >= count_)
    throw error({"batches: the run is at sample ", from.sample, " of epoch ", from.epoch, ", but an epoch of ",
                 called.self, " has ", counted(count_, "sample"),
                 "; resume with the data that the run was saved with"});
  if (!samples_.has_labels())
    throw error({"batches: the ", called.has, " no labels, because ", called.unlabeled, " to learn"});
}

[[gnu::cold]] CONSTRAIN_INLINE batch_source::batch_source(data::corpus const& corpus, std::uint64_t seed,
                                                          data::position from, std::int64_t sequences,
                                                          std::int64_t tokens, data::tail tail, int rank, int ranks)
    : batch_source(samples_in(corpus, tokens), seed, from, sequences, tail, rank, ranks) {}

[[gnu::cold]] CONSTRAIN_INLINE void batch_source::operator()(batch_buffer& out) {
  // A prompt longer than a sequence can leave a batch without any label.
  while (begin_batch() == 0) position_ = next_;
  samples_.view(sequences_, out);
  out.batch.next = next_;
  auto at = position_;
  for (std::int64_t i = 0; i < needed_; ++i, at.advance(count_)) {
    auto const mine = i - rank_ * sequences_;
    if (mine < 0 || mine >= sequences_) continue;
    if (i < taken_) {
      auto const sample = at.in_corpus(seed_, count_);
      out.epoch = at.epoch;
      samples_.copy(sample, mine, out);
      out.batch.valid_labels += samples_.labels(sample);
    } else samples_.pad(mine, out);
  }
  position_ = next_;
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batch_source::count_before(std::int64_t epoch, std::int64_t limit) {
  std::int64_t count = 0;
  for (; count < limit; ++count, position_ = next_) {
    while (begin_batch() == 0) position_ = next_;
    if (position_.epoch >= epoch) break;
  }
  return count;
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batch_source::begin_batch() {
  if (tail_ == data::tail::drop && count_ - position_.sample < needed_) position_ = {position_.epoch + 1, 0};
  taken_ = tail_ == data::tail::pad ? std::min(needed_, count_ - position_.sample) : needed_;
  next_ = position_;
  std::int64_t labels = 0;
  for (std::int64_t i = 0; i < taken_; ++i, next_.advance(count_))
    labels += samples_.labels(next_.in_corpus(seed_, count_));
  return labels;
}

[[gnu::cold]] CONSTRAIN_INLINE auto batch_range::iterator::operator++() -> iterator& {
  owner_->tickets_.withdraw();
  owner_->current_ = owner_->batches_.next().batch;
  owner_->current_.ticket = owner_->tickets_.latest();
  return *this;
}

} // namespace constrain
