#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/data/prefetch.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/batch.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Copies sample `sample` of a corpus: inputs [tokens], and labels [tokens], which are the inputs shifted by one token.
/// Prompt tokens become `ignored_label`.
inline void copy_sample(data::corpus const& corpus, std::int64_t sample, std::int64_t tokens, std::int32_t* inputs,
                        std::int32_t* labels) {
  auto const n = static_cast<std::size_t>(tokens);
  corpus.copy(sample * tokens, {inputs, n});
  corpus.copy_labels(sample * tokens + 1, {labels, n});
}

/// Fills inputs and labels [sequences, tokens] with samples `first`, `first` + 1, ... of the corpus's `samples`. Rows
/// past the last sample get token 0 and `ignored_label`.
[[gnu::noinline]] inline void copy_samples(data::corpus const& corpus, std::int64_t first, std::int64_t samples,
                                           std::int64_t tokens, std::vector<std::int32_t>& inputs,
                                           std::vector<std::int32_t>& labels) {
  std::fill(inputs.begin(), inputs.end(), 0);
  std::fill(labels.begin(), labels.end(), ignored_label);
  auto const sequences = static_cast<std::int64_t>(inputs.size()) / tokens;
  for (std::int64_t i = 0; i < sequences && first + i < samples; ++i)
    copy_sample(corpus, first + i, tokens, inputs.data() + i * tokens, labels.data() + i * tokens);
}

/// A batch and the arrays it views.
struct batch_buffer {
  std::vector<std::int32_t> inputs, labels; // [micro-batches, sequences, tokens]
  constrain::batch batch{};                 // views of both
};

/// Fills consecutive batches of a corpus, in each epoch's random order. A batch of all ranks has ranks x `sequences`
/// samples; rank r fills its share, samples [r x sequences, (r + 1) x sequences).
class batch_source {
public:
  /// `sequences`: of one step on one rank. `from`: position of the first batch. Throws `error` if the corpus has no
  /// sample or no label, if `from` lies outside an epoch, or if `tail::drop` would drop every sample.
  batch_source(data::corpus const& corpus, std::uint64_t seed, data::position from, std::int64_t sequences,
               std::int64_t tokens, data::tail tail, int rank, int ranks)
      : corpus_(corpus), seed_(seed), position_(from), sequences_(sequences), tokens_(tokens), tail_(tail), rank_(rank),
        needed_(ranks * sequences), samples_(data::samples(corpus.size(), tokens)) {
    if (tail == data::tail::drop && samples_ < needed_)
      throw error({"batches: an epoch of the corpus has ", samples_, " samples where a batch takes ", needed_,
                   ", so tail::drop would drop them all; give more text or use tail::carry"});
    if (from.epoch < 0 || from.sample < 0 || from.sample >= samples_)
      throw error({"batches: the run stands at sample ", from.sample, " of epoch ", from.epoch,
                   ", where an epoch of the corpus has ", samples_,
                   " samples; resume from a checkpoint that was saved with this corpus"});
    if (corpus.labels(1, samples_ * tokens) == 0)
      throw error("batches: the corpus has no label, every token of its samples is given; give some text to learn");
  }

  /// Fills the next batch. Batches in which no rank has a label are skipped.
  void operator()(batch_buffer& out) {
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

  /// Counts the batches that begin before `epoch`, at most `limit`, and advances past them.
  std::int64_t count_before(std::int64_t epoch, std::int64_t limit) {
    std::int64_t count = 0;
    for (; count < limit; ++count, position_ = next_) {
      while (begin_batch() == 0) position_ = next_;
      if (position_.epoch >= epoch) break;
    }
    return count;
  }

private:
  /// Sets the batch's first sample (`position_`), its number of samples (`taken_`) and the next batch's first sample
  /// (`next_`). Returns its labels on all ranks.
  std::int64_t begin_batch() {
    if (tail_ == data::tail::drop && samples_ - position_.sample < needed_) position_ = {position_.epoch + 1, 0};
    taken_ = tail_ == data::tail::pad ? std::min(needed_, samples_ - position_.sample) : needed_;
    next_ = position_;
    std::int64_t labels = 0;
    for (std::int64_t i = 0; i < taken_; ++i, next_.advance(samples_))
      labels += labels_of(next_.in_corpus(seed_, samples_));
    return labels;
  }

  std::int64_t labels_of(std::int64_t sample) const { return corpus_.labels(sample * tokens_ + 1, tokens_); }

  data::corpus corpus_;
  std::uint64_t seed_;
  data::position position_;
  std::int64_t sequences_, tokens_;
  data::tail tail_;
  std::int64_t rank_, needed_, samples_;
  data::position next_{};
  std::int64_t taken_ = 0;
};

/// The batches of a corpus, without end: an input range. A worker thread fills the next batch while the current one is
/// in use; incrementing the iterator overwrites the current one.
class batch_range {
public:
  /// `elements`: of the inputs of one step on one rank.
  batch_range(batch_source source, std::int64_t elements)
      : batches_({std::vector<std::int32_t>(static_cast<std::size_t>(elements)),
                  std::vector<std::int32_t>(static_cast<std::size_t>(elements))},
                 std::move(source)) {}

  class iterator {
  public:
    using value_type = batch;
    using difference_type = std::ptrdiff_t;
    explicit iterator(batch_range& owner) : owner_(&owner) {}
    batch const& operator*() const { return owner_->current_; }
    iterator& operator++() {
      owner_->tickets_.withdraw();
      owner_->current_ = owner_->batches_.next().batch;
      owner_->current_.ticket = owner_->tickets_.latest();
      return *this;
    }
    void operator++(int) { ++*this; }

  private:
    batch_range* owner_;
  };

  iterator begin() { return ++iterator(*this); }
  std::unreachable_sentinel_t end() const { return {}; }

private:
  data::prefetch<batch_buffer, batch_source> batches_;
  batch current_;
  batch_tickets tickets_; // last member: destroyed first, so tickets become invalid before the arrays are freed
};

namespace detail {

/// Throws `error` if the corpus has a larger vocabulary than the model.
inline void check_vocabulary(std::int64_t corpus, std::int64_t model) {
  if (corpus > model)
    throw error({"the corpus has a vocabulary of ", corpus, " and the model one of ", model,
                 "; give the model `.vocabulary = ", corpus, "`"});
}

} // namespace detail

} // namespace constrain
