#pragma once

#include "constrain/train/batch.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The samples of one batch, and the batch that views them. Row i is sequence i of the batch.
struct batch_buffer {
  std::vector<std::int32_t> inputs, labels;    // of a corpus: [rows, tokens]
  constrain::batch batch{};                    // views of the arrays
  std::shared_ptr<batch_arrays> of_examples{}; // of examples: the arrays of all inputs and labels
  std::int64_t epoch = 0;                      // of the next sample to be copied; masks depend on it
};

/// The samples of a data set, for batches and evaluation: one interface to a corpus (train/corpus_samples.hpp) and to
/// examples (train/example_samples.hpp). Samples have the indices 0 to `size()` - 1. A sample is one sequence of a
/// batch. Copies share the data.
class sample_set {
public:
  /// Words for errors about the data set.
  struct words {
    char const* name;           ///< Such as "corpus".
    char const* name_has;       ///< Such as "corpus has".
    char const* this_name;      ///< Such as "this corpus".
    char const* more_samples;   ///< What to add if there are too few samples.
    char const* why_unlabelled; ///< Why no sample has a label, and what to do; "to learn" or "to predict" follows.
  };
  /// The properties of the data set.
  struct facts {
    words wording;                 ///< Words for errors about the data set.
    std::int64_t size = 0;         ///< Number of samples, at least 1; 0: no data set.
    std::uint64_t fingerprint = 0; ///< Hash of the content.
    bool pads = true;              ///< Whether padded rows leave all results unchanged.
  };

  /// Refers to no data set: `size()` is 0, and `labels`, `view`, `copy` and `pad` must not be called.
  sample_set() = default;
  /// The samples of `data`, an object with functions `labels`, `view`, `copy` and `pad`, like the functions below. `f`:
  /// the properties of the data set. (This class uses function pointers, because compilers generate code for virtual
  /// functions even if a program does not use the class.)
  template <class kind>
  sample_set(std::shared_ptr<kind const> data, facts const& f)
      : data_(std::move(data)), facts_(f),
        labels_([](void const* d, std::int64_t sample) { return static_cast<kind const*>(d)->labels(sample); }),
        view_([](void const* d, std::int64_t rows, batch_buffer& to) { static_cast<kind const*>(d)->view(rows, to); }),
        copy_([](void const* d, std::int64_t sample, std::int64_t row, batch_buffer& to) {
          static_cast<kind const*>(d)->copy(sample, row, to);
        }),
        pad_([](void const* d, std::int64_t row, batch_buffer& to) { static_cast<kind const*>(d)->pad(row, to); }) {}

  /// Words for errors about the data set.
  words const& wording() const { return facts_.wording; }
  /// Number of samples, at least 1; 0: this object refers to no data set.
  std::int64_t size() const { return facts_.size; }
  /// Hash of the content.
  std::uint64_t fingerprint() const { return facts_.fingerprint; }
  /// Whether padded rows leave all results unchanged: false if an op indexes by the first labels, so that they
  /// cannot be ignored, if any labels are floating-point, or if padded rows add to the loss.
  bool pads() const { return facts_.pads; }

  /// Number of valid labels of a sample in the first array of labels.
  std::int64_t labels(std::int64_t sample) const { return labels_(data_.get(), sample); }
  /// Whether any sample has a valid label.
  bool has_labels() const;
  /// For each sample, whether it has a valid label. Reads all labels of the first array.
  std::vector<bool> samples_with_labels() const;

  /// Makes `to.batch` a view of the arrays of `to` and sets `to.batch.valid_labels` to 0. `rows`: the number of rows of
  /// the arrays. All calls for a buffer must have the same `rows` and the same data set; only the first call allocates.
  void view(std::int64_t rows, batch_buffer& to) const { view_(data_.get(), rows, to); }
  /// Copies a sample into a row of `to`. Call `view` first. `to.epoch` determines the masks of masked examples. Throws
  /// `error` if the data cannot be read or has changed.
  void copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const { copy_(data_.get(), sample, row, to); }
  /// Fills a row of `to` with zeros, and with ignored labels where labels can be ignored (of a corpus, always). Call
  /// `view` first.
  void pad(std::int64_t row, batch_buffer& to) const { pad_(data_.get(), row, to); }

private:
  std::shared_ptr<void const> data_{};
  facts facts_{};
  std::int64_t (*labels_)(void const*, std::int64_t) = nullptr;
  void (*view_)(void const*, std::int64_t, batch_buffer&) = nullptr;
  void (*copy_)(void const*, std::int64_t, std::int64_t, batch_buffer&) = nullptr;
  void (*pad_)(void const*, std::int64_t, batch_buffer&) = nullptr;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/sample_set.ipp"
#endif
