#pragma once

#include "constrain/train/batches.hpp"

#include "constrain/base/number_check.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE batch_source::batch_source(sample_set samples, std::uint64_t seed, data::position start,
                                                          std::int64_t sequences, data::tail tail, int rank, int ranks)
    : samples_(std::move(samples)), seed_(seed), position_(start), sequences_(sequences), tail_(tail), rank_(rank),
      full_batch_size_(ranks * sequences), epoch_size_(samples_.size()) {
  check_count("batches", "the number of sequences", sequences, 1);
  if (rank < 0 || rank >= ranks)
    throw error({"batches: rank ", rank, " of ", ranks,
                 " does not exist; give at least 1 rank, and a rank that is at least 0 and below the number of ranks"});
  auto const wording = samples_.wording();
  if (tail > data::tail::pad)
    throw error({"batches: the tail is ", static_cast<int>(tail), "; give tail::carry, tail::drop or tail::pad"});
  if (tail == data::tail::drop && epoch_size_ < full_batch_size_)
    throw error({"batches: an epoch of the ", wording.name, " has ", counted(epoch_size_, "sample"),
                 ", but a batch takes ", full_batch_size_, ", so tail::drop would drop them all; give ",
                 wording.more_samples, " or use tail::carry"});
  if (tail == data::tail::pad && !samples_.pads())
    throw error("batches: tail::pad ignores the labels of the padding, but the task has floating-point labels, or "
                "labels that an op indexes by, which cannot be ignored; use tail::carry or tail::drop");
  if (start.epoch < 0 || start.sample < 0 || start.sample >= epoch_size_)
    throw error({"batches: the start is sample ", start.sample, " of epoch ", start.epoch,
                 ", but epochs are numbered from 0, and the samples of ", wording.this_name, " from 0 to ",
                 epoch_size_ - 1, "; start at one of these, or resume with the data that the run was saved with"});
  if (!samples_.has_labels())
    throw error({"batches: the ", wording.name_has, " no labels, because ", wording.unlabeled, " to learn"});
}

[[gnu::cold]] CONSTRAIN_INLINE batch_source::batch_source(data::corpus const& corpus, std::uint64_t seed,
                                                          data::position start, std::int64_t sequences,
                                                          std::int64_t tokens, data::tail tail, int rank, int ranks)
    : batch_source(samples_in(corpus, tokens), seed, start, sequences, tail, rank, ranks) {}

[[gnu::cold]] CONSTRAIN_INLINE void batch_source::operator()(batch_buffer& out) {
  // A batch can have no valid label, for example if a prompt is longer than a sequence: skip such batches.
  while (begin_batch() == 0) position_ = next_;
  samples_.view(sequences_, out);
  out.batch.next = next_;
  auto position = position_;
  for (std::int64_t i = 0; i < full_batch_size_; ++i, position.advance(epoch_size_)) {
    auto const row = i - rank_ * sequences_;
    if (row < 0 || row >= sequences_) continue;
    if (i < batch_size_) {
      auto const sample = position.in_corpus(seed_, epoch_size_);
      out.epoch = position.epoch;
      samples_.copy(sample, row, out);
      out.batch.valid_labels += samples_.labels(sample);
    } else samples_.pad(row, out);
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
  if (tail_ == data::tail::drop && epoch_size_ - position_.sample < full_batch_size_)
    position_ = {position_.epoch + 1, 0};
  batch_size_ =
      tail_ == data::tail::pad ? std::min(full_batch_size_, epoch_size_ - position_.sample) : full_batch_size_;
  next_ = position_;
  std::int64_t labels = 0;
  for (std::int64_t i = 0; i < batch_size_; ++i, next_.advance(epoch_size_))
    labels += samples_.labels(next_.in_corpus(seed_, epoch_size_));
  return labels;
}

[[gnu::cold]] CONSTRAIN_INLINE auto batch_range::iterator::operator++() -> iterator& {
  owner_->tickets_.withdraw();
  owner_->current_ = owner_->batches_.next().batch;
  owner_->current_.ticket = owner_->tickets_.latest();
  return *this;
}

} // namespace constrain
