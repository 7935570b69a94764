#pragma once

#include "constrain/train/batches.hpp"

#include "constrain/base/number_check.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE batch_source::batch_source(sample_set samples, std::uint64_t seed, data::position start,
                                                          std::int64_t sequences, data::tail tail, int rank, int ranks,
                                                          char const* caller)
    : samples_(std::move(samples)), seed_(seed), position_(start), sequences_(sequences), tail_(tail), rank_(rank),
      full_batch_size_(ranks * sequences), epoch_size_(samples_.size()) {
  check_count(caller, "the number of sequences", sequences, 1);
  if (rank < 0 || rank >= ranks)
    throw error({caller, ": rank ", rank, " of ", ranks,
                 " does not exist; give at least 1 rank, and a rank that is at least 0 and below the number of ranks"});
  auto const wording = samples_.wording();
  if (tail > data::tail::pad)
    throw error({caller, ": the tail is ", static_cast<int>(tail), "; give tail::carry, tail::drop or tail::pad"});
  if (tail == data::tail::drop && epoch_size_ < full_batch_size_)
    throw error({caller, ": an epoch of the ", wording.name, " has ", counted(epoch_size_, "sample"),
                 ", but a batch takes ", full_batch_size_, ", so tail::drop would drop every sample; give ",
                 wording.more_samples, " or use tail::carry"});
  if (tail == data::tail::pad && !samples_.pads())
    throw error({caller, ": tail::pad ignores the labels of the padding, but the task has floating-point labels, "
                         "labels that an op indexes by, or a loss that reads the logits in an op without integer "
                         "labels, so the padding would count; use tail::carry or tail::drop"});
  if (start.epoch < 0 || start.sample < 0 || start.sample >= epoch_size_)
    throw error({caller, ": the start is sample ", start.sample, " of epoch ", start.epoch,
                 ", but epochs are numbered from 0, and the samples of ", wording.this_name, " from 0 to ",
                 epoch_size_ - 1, "; start at one of these, or resume with the data that the run was saved with"});
  if (!samples_.has_labels())
    throw error({caller, ": the ", wording.name_has, " no valid label, because ", wording.why_unlabelled, " to learn"});
}

[[gnu::cold]] CONSTRAIN_INLINE batch_source::batch_source(data::corpus const& corpus, std::uint64_t seed,
                                                          data::position start, std::int64_t sequences,
                                                          std::int64_t tokens, data::tail tail, int rank, int ranks)
    : batch_source(samples_in(corpus, tokens), seed, start, sequences, tail, rank, ranks) {}

[[gnu::cold]] CONSTRAIN_INLINE void batch_source::operator()(batch_buffer& out) {
  // A batch can have no valid label, for example if a prompt is longer than a sequence: skip such batches.
  auto const has_label = [&](std::int64_t sample) { return samples_.labels(sample) > 0; };
  while (!begin_batch(has_label)) position_ = next_;
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

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t batch_source::count_before(std::int64_t epoch, std::int64_t limit,
                                                                       std::vector<bool> const& with_labels) {
  auto const has_label = [&](std::int64_t sample) { return with_labels[static_cast<std::size_t>(sample)]; };
  std::int64_t count = 0;
  for (; count < limit; position_ = next_) {
    bool const counts = begin_batch(has_label);
    if (position_.epoch >= epoch) break;
    count += counts;
  }
  return count;
}

[[gnu::cold]] CONSTRAIN_INLINE bool batch_source::begin_batch(function_ref<bool(std::int64_t)> has_label) {
  if (tail_ == data::tail::drop && epoch_size_ - position_.sample < full_batch_size_)
    position_ = {position_.epoch + 1, 0};
  batch_size_ =
      tail_ == data::tail::pad ? std::min(full_batch_size_, epoch_size_ - position_.sample) : full_batch_size_;
  next_ = position_;
  next_.advance(epoch_size_, batch_size_);
  for (auto position = position_; position != next_; position.advance(epoch_size_))
    if (has_label(position.in_corpus(seed_, epoch_size_))) return true;
  return false;
}

[[gnu::cold]] CONSTRAIN_INLINE auto batch_range::iterator::operator++() -> iterator& {
  owner_->tickets_.withdraw();
  owner_->current_ = owner_->batches_.next().batch;
  owner_->current_.ticket = owner_->tickets_.latest();
  return *this;
}

} // namespace constrain
