#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/data/prefetch.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/corpus_samples.hpp"
#include "constrain/train/sample_set.hpp"

#include <iterator>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Fills consecutive batches with the samples of a data set, in each epoch's random order. Each batch takes the next
/// `ranks` x `sequences` samples, of which rank r gets samples [r x sequences, (r + 1) x sequences). If the last
/// samples of an epoch do not fill a batch: with `tail::carry`, samples of the next epoch fill it; with `tail::pad`,
/// padding fills it; with `tail::drop`, these last samples are skipped.
class batch_source {
public:
  /// `seed`: of the random order. `start`: position of the first batch. `sequences`: sequences in one step on one rank.
  /// `tail`: see data/tail.hpp. `rank`: this rank's index, in [0, `ranks`), among the ranks that train on different
  /// data. `trainer::step` with a parallel policy needs the same `start`, `tail` and `ranks` on all ranks. Throws
  /// `error` if an argument is out of range, if the data set has no valid label, if there is no sample at `start`, if
  /// `tail::drop` would drop every sample, or, with `tail::pad`, if `samples.pads()` is false. `caller`: the first
  /// words of these errors.
  batch_source(sample_set samples, std::uint64_t seed, data::position start, std::int64_t sequences, data::tail tail,
               int rank, int ranks, char const* caller = "batches");
  /// Like the constructor above, for a corpus and a task whose labels can be ignored. `tokens`: tokens in a sequence.
  /// Also throws `error` as `samples_in` does.
  batch_source(data::corpus const& corpus, std::uint64_t seed, data::position start, std::int64_t sequences,
               std::int64_t tokens, data::tail tail, int rank, int ranks);

  /// Fills `out` with this rank's rows of the next batch. Skips batches in which no rank has a valid label. Throws as
  /// `sample_set::copy` does.
  void operator()(batch_buffer& out);

  /// Skips the batches that begin before epoch number `epoch` (counted from 0), at most `limit` batches. Returns the
  /// number of batches skipped. Batches in which no rank has a valid label count neither towards `limit` nor towards
  /// the result. `with_labels`: the result of `sample_set::samples_with_labels`.
  std::int64_t count_before(std::int64_t epoch, std::int64_t limit, std::vector<bool> const& with_labels);

private:
  /// Sets the position of the batch's first sample (`position_`), the number of samples in the batch without padding
  /// (`batch_size_`) and the position after the batch's last sample (`next_`). Returns whether any rank has a valid
  /// label. `has_label(sample)`: whether a sample has a valid label; called up to the first sample that has one.
  bool begin_batch(function_ref<bool(std::int64_t)> has_label);

  sample_set samples_;
  std::uint64_t seed_;
  data::position position_;
  std::int64_t sequences_;
  data::tail tail_;
  std::int64_t rank_, full_batch_size_, epoch_size_; // sizes in samples; a full batch: over all ranks
  data::position next_{};
  std::int64_t batch_size_ = 0;
};

/// The batches of a data set, as an endless input range. A worker thread fills the next batch while the current batch
/// is in use. Incrementing the iterator overwrites the current batch.
class batch_range {
public:
  /// Starts to fill the first batch.
  [[gnu::noinline, gnu::cold]] explicit batch_range(batch_source source) : batches_({}, std::move(source)) {}

  /// An input iterator. All iterators of a range point to the same batch: incrementing one advances all.
  class iterator {
  public:
    using value_type = batch;
    using difference_type = std::ptrdiff_t;
    /// An iterator at the current batch of `owner`, which must outlive it.
    explicit iterator(batch_range& owner) : owner_(&owner) {}
    /// The range's current batch. The next increment of any iterator of the range changes it.
    batch const& operator*() const { return owner_->current_; }
    /// Waits for the worker thread, and makes its batch the current batch. Throws as `batch_range::begin` does.
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

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/batches.ipp"
#endif
