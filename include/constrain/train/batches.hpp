#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/data/prefetch.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/batch.hpp"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Copies sample number `sample` of a corpus (see data/order.hpp): inputs [tokens] and labels [tokens]. Label i is the
/// token after input i, or `ignored_label` if that token belongs to a prompt. Throws as `data::corpus::copy` does.
void copy_sample(data::corpus const& corpus, std::int64_t sample, std::int64_t tokens, std::int32_t* inputs,
                 std::int32_t* labels);

/// Fills inputs and labels [sequences, tokens] with the samples `first`, `first` + 1, ... of a corpus that has
/// `samples` samples. Rows past the last sample get token 0 and `ignored_label`. Throws as `data::corpus::copy` does.
void copy_samples(data::corpus const& corpus, std::int64_t first, std::int64_t samples, std::int64_t tokens,
                  std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& labels);

/// A batch and the arrays it views.
struct batch_buffer {
  std::vector<std::int32_t> inputs, labels; // [micro-batches, sequences, tokens]
  constrain::batch batch{};                 // views of `inputs` and `labels`
};

/// Fills consecutive batches with the samples of a corpus, in each epoch's random order. Each step takes the next
/// ranks x `sequences` samples; rank r gets samples [r x sequences, (r + 1) x sequences) of these.
class batch_source {
public:
  /// `seed`: of the random order. `from`: position of the first batch. `sequences`: sequences in one step on one rank.
  /// `tokens`: tokens in a sequence. `tail`: see data/tail.hpp. `rank`: this rank, of `ranks`. Throws `error` if the
  /// corpus has no sample or no label, if `from` lies outside an epoch, or if `tail::drop` would drop every sample.
  batch_source(data::corpus const& corpus, std::uint64_t seed, data::position from, std::int64_t sequences,
               std::int64_t tokens, data::tail tail, int rank, int ranks);

  /// Fills `out` with the next batch. Skips batches in which no rank has a valid label. Throws as `data::corpus::copy`
  /// does.
  void operator()(batch_buffer& out);

  /// Skips the batches that begin before epoch number `epoch`, at most `limit` batches. Returns the number of batches
  /// skipped, not counting those in which no rank has a valid label.
  std::int64_t count_before(std::int64_t epoch, std::int64_t limit);

private:
  /// Sets the position of the batch's first sample (`position_`), the number of samples in the batch (`taken_`) and the
  /// position of the next batch's first sample (`next_`). Returns the number of valid labels in the batch, over all
  /// ranks.
  std::int64_t begin_batch();

  /// Number of valid labels in a sample, given by its index in the corpus.
  std::int64_t labels_of(std::int64_t sample) const { return corpus_.labels(sample * tokens_ + 1, tokens_); }

  data::corpus corpus_;
  std::uint64_t seed_;
  data::position position_;
  std::int64_t sequences_, tokens_;
  data::tail tail_;
  std::int64_t rank_, needed_, samples_; // `needed_`: samples in a batch, over all ranks; `samples_`: in an epoch
  data::position next_{};
  std::int64_t taken_ = 0;
};

/// The batches of a corpus, without end: an input range. A worker thread fills the next batch while the current batch
/// is in use; incrementing the iterator overwrites the current batch.
class batch_range {
public:
  /// `elements`: number of inputs, and of labels, of one step on one rank.
  [[gnu::noinline]] batch_range(batch_source source, std::int64_t elements)
      : batches_({std::vector<std::int32_t>(static_cast<std::size_t>(elements)),
                  std::vector<std::int32_t>(static_cast<std::size_t>(elements))},
                 std::move(source)) {}

  /// An input iterator. All iterators of a range are at the same batch: incrementing one advances all.
  class iterator {
  public:
    using value_type = batch;
    using difference_type = std::ptrdiff_t;
    /// An iterator at the current batch of `owner`.
    explicit iterator(batch_range& owner) : owner_(&owner) {}
    batch const& operator*() const { return owner_->current_; }
    iterator& operator++();
    void operator++(int) { ++*this; }

  private:
    batch_range* owner_;
  };

  /// Advances to the next batch; in a new range, to the first batch. The range has no end. Throws, as `++` does, the
  /// `error` of the worker thread if the corpus's file or memory has changed or cannot be read.
  iterator begin() { return ++iterator(*this); }
  std::unreachable_sentinel_t end() const { return {}; }

private:
  data::prefetch<batch_buffer, batch_source> batches_;
  batch current_;
  batch_tickets tickets_; // last member: destroyed first, so tickets become invalid before the arrays are freed
};

namespace detail {

/// The compile-time error for the batches of a corpus that do not fit the task.
template <bool takes_tokens, bool labels_tokens> struct corpus_has_batches {
  static_assert(takes_tokens, "batches(corpus): a corpus is one sequence of tokens, but the model takes other inputs; "
                              "write batch({first, second}, labels)");
  static_assert(labels_tokens,
                "batches(corpus): a corpus labels every token with the next one, but the task has other labels; "
                "write batch(inputs, labels)");
};
/// The compile-time error for the evaluation of a corpus that does not fit the task.
template <bool fits> struct corpus_is_evaluated {
  static_assert(fits, "evaluate(corpus): a corpus is one sequence of tokens that labels every token with the next one, "
                      "but the task has other inputs or labels; write evaluate(inputs, labels)");
};

/// Throws `error` if the vocabulary of the corpus (`corpus`) is larger than the model's (`model`).
void check_vocabulary(std::int64_t corpus, std::int64_t model);

} // namespace detail

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/batches.ipp"
#endif
