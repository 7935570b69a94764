#pragma once

#include "constrain/train/batches.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE void copy_sample(data::corpus const& corpus, std::int64_t sample, std::int64_t tokens,
                                  std::int32_t* inputs, std::int32_t* labels) {
  auto const n = static_cast<std::size_t>(tokens);
  corpus.copy(sample * tokens, {inputs, n});
  corpus.copy_labels(sample * tokens + 1, {labels, n});
}

CONSTRAIN_INLINE void copy_samples(data::corpus const& corpus, std::int64_t first, std::int64_t samples,
                                   std::int64_t tokens, std::vector<std::int32_t>& inputs,
                                   std::vector<std::int32_t>& labels) {
  std::fill(inputs.begin(), inputs.end(), 0);
  std::fill(labels.begin(), labels.end(), ignored_label);
  auto const sequences = static_cast<std::int64_t>(inputs.size()) / tokens;
  for (std::int64_t i = 0; i < sequences && first + i < samples; ++i)
    copy_sample(corpus, first + i, tokens, inputs.data() + i * tokens, labels.data() + i * tokens);
}

CONSTRAIN_INLINE batch_source::batch_source(data::corpus const& corpus, std::uint64_t seed, data::position from,
                                            std::int64_t sequences, std::int64_t tokens, data::tail tail, int rank,
                                            int ranks)
    : corpus_(corpus), seed_(seed), position_(from), sequences_(sequences), tokens_(tokens), tail_(tail), rank_(rank),
      needed_(ranks * sequences), samples_(data::samples(corpus.size(), tokens)) {
  if (tail == data::tail::drop && samples_ < needed_)
    throw error({"batches: an epoch of the corpus has ", samples_, " samples, but a batch takes ", needed_,
                 ", so tail::drop would drop them all; give more text or use tail::carry"});
  if (from.epoch < 0 || from.sample < 0 || from.sample >= samples_)
    throw error({"batches: the run is at sample ", from.sample, " of epoch ", from.epoch,
                 ", but an epoch of this corpus has ", samples_,
                 " samples; resume a run that was saved with this corpus"});
  if (corpus.labels(1, samples_ * tokens) == 0)
    throw error("batches: the corpus has no labels, because every token of its samples is a prompt token; give a "
                "corpus with text to learn");
}

CONSTRAIN_INLINE void batch_source::operator()(batch_buffer& out) {
  // A prompt longer than a sequence can leave a batch without any label.
  while (begin_batch() == 0) position_ = next_;
  out.batch = {out.inputs, out.labels, 0, corpus_.fingerprint(), next_, tokens_};
  auto at = position_;
  for (std::int64_t i = 0; i < needed_; ++i, at.advance(samples_)) {
    auto const mine = i - rank_ * sequences_;
    if (mine < 0 || mine >= sequences_) continue;
    auto* const inputs = out.inputs.data() + mine * tokens_;
    auto* const labels = out.labels.data() + mine * tokens_;
    if (i < taken_) {
      auto const sample = at.in_corpus(seed_, samples_);
      copy_sample(corpus_, sample, tokens_, inputs, labels);
      out.batch.valid_labels += labels_of(sample);
    } else {
      std::fill_n(inputs, tokens_, 0);
      std::fill_n(labels, tokens_, ignored_label);
    }
  }
  position_ = next_;
}

CONSTRAIN_INLINE std::int64_t batch_source::count_before(std::int64_t epoch, std::int64_t limit) {
  std::int64_t count = 0;
  for (; count < limit; ++count, position_ = next_) {
    while (begin_batch() == 0) position_ = next_;
    if (position_.epoch >= epoch) break;
  }
  return count;
}

CONSTRAIN_INLINE std::int64_t batch_source::begin_batch() {
  if (tail_ == data::tail::drop && samples_ - position_.sample < needed_) position_ = {position_.epoch + 1, 0};
  taken_ = tail_ == data::tail::pad ? std::min(needed_, samples_ - position_.sample) : needed_;
  next_ = position_;
  std::int64_t labels = 0;
  for (std::int64_t i = 0; i < taken_; ++i, next_.advance(samples_))
    labels += labels_of(next_.in_corpus(seed_, samples_));
  return labels;
}

CONSTRAIN_INLINE auto batch_range::iterator::operator++() -> iterator& {
  owner_->tickets_.withdraw();
  owner_->current_ = owner_->batches_.next().batch;
  owner_->current_.ticket = owner_->tickets_.latest();
  return *this;
}

} // namespace constrain

namespace constrain::inline CONSTRAIN_VARIANT::detail {

CONSTRAIN_INLINE void check_vocabulary(std::int64_t corpus, std::int64_t model) {
  if (corpus > model)
    throw error({"the corpus has a vocabulary of ", corpus, " and the model one of ", model,
                 "; give the model `.vocabulary = ", corpus, "`"});
}

} // namespace constrain::detail
