#pragma once

#include "constrain/train/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The samples of one batch, and the batch that views them. Row i is sequence i of the batch.
struct batch_buffer {
  std::vector<std::int32_t> inputs, labels;    // of a corpus: [micro-batches, sequences, tokens]
  constrain::batch batch{};                    // views of the arrays
  std::vector<std::vector<std::byte>> ports{}; // of examples: one array for each input, then for each label
  std::shared_ptr<batch_arrays const> views{}; // of examples: views of `ports`
};

/// The samples of a data set as a task reads them: what batches, epochs and evaluation need of a corpus
/// (train/corpus_samples.hpp) and of examples (train/example_samples.hpp). Samples have the indices 0 to `size()` - 1,
/// and a sample is one sequence of a batch.
class sample_set {
public:
  /// The words of errors about the data set.
  struct words {
    char const* name;      // "corpus"
    char const* has;       // "corpus has"
    char const* self;      // "this corpus"
    char const* more;      // what to give if there are too few samples
    char const* unlabeled; // why no sample has a label, and what to give
  };

  virtual ~sample_set() = default;

  /// The words of errors about the data set.
  virtual words called() const = 0;
  /// Number of samples, at least 1.
  virtual std::int64_t size() const = 0;
  /// Hash of the content: data sets with equal hashes have the same samples.
  virtual std::uint64_t fingerprint() const = 0;
  /// Number of valid labels in a sample.
  virtual std::int64_t labels(std::int64_t sample) const = 0;
  /// Whether any sample has a valid label.
  virtual bool has_labels() const = 0;
  /// Whether every sample has a valid label.
  virtual bool every_sample_has_a_label() const = 0;
  /// Whether `pad` is possible: every label can be ignored.
  virtual bool pads() const = 0;

  /// A buffer for `rows` samples.
  virtual batch_buffer buffer(std::int64_t rows) const = 0;
  /// Makes `to.batch` view the buffer's arrays, with no valid label so far. Allocates only in the first call for a
  /// buffer.
  virtual void view(batch_buffer& to) const = 0;
  /// Copies a sample into a row. Throws `error` if the data cannot be read.
  virtual void copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const = 0;
  /// Fills a row with zeros and ignored labels.
  virtual void pad(std::int64_t row, batch_buffer& to) const = 0;
};

/// A data set that batches share.
using sample_set_pointer = std::shared_ptr<sample_set const>;

} // namespace constrain
