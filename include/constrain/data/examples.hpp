#pragma once

#include "constrain/base/array_view.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/data/lasting_arrays.hpp"
#include "constrain/data/order.hpp"

#include <cstdint>
#include <limits>
#include <memory>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// A random part of examples that `split` returns: `share` of them for validation, or all others.
struct examples_part {
  double share = 0;       ///< Share of the examples that are drawn for validation.
  std::int64_t most = 0;  ///< At most this many are drawn.
  std::uint64_t seed = 0; ///< Of the draw.
  bool drawn = false;     ///< This part has the drawn examples; false: the others.
};

/// The splits that led to a part, the first one first.
using examples_splits = fixed_vector<examples_part, 8>;

/// n examples in arrays of the caller, for models with any inputs and labels: a data set like PyTorch's TensorDataset.
/// Array k has the shape [n, ...], row-major, where ... is the shape of port k of the task without its first dimension
/// (sequences). So n follows from the lengths of the arrays once a trainer reads them:
///
///     ct::data::examples const training{{tokens, segments, lengths}, labels};
///     for (auto const& batch : t.batches(training)) t.step(batch);
///
/// The arrays are viewed, not copied: they must outlive every use of the examples and of the copies and parts of them,
/// and must not change meanwhile. `from_storage` makes examples that keep their arrays alive.
class examples {
public:
  /// Examples of one array per input of the model and one per label of the objective, each an array or a list as for
  /// `trainer::batch`; a temporary std::vector or std::array does not compile. `which`: as for `trainer::batch`. Reads
  /// all arrays, for the fingerprint.
  examples(lasting_arrays const& inputs, lasting_arrays const& labels,
           constrain::labels which = constrain::labels::shifted);

  /// The same of arrays that `storage` keeps alive.
  static examples from_storage(std::shared_ptr<void const> storage, array_list const& inputs, array_list const& labels,
                               constrain::labels which = constrain::labels::shifted);

  /// The arrays of the inputs, of all examples that `split` has divided.
  array_list const& inputs() const { return inputs_; }
  /// The arrays of the labels, of all examples that `split` has divided.
  array_list const& labels() const { return labels_; }
  /// Whether the labels are to be shifted by one token.
  constrain::labels which() const { return which_; }

  /// Hash of the content. Upper 32 bits: length in bytes, modulo 2^32. Lower 32 bits: CRC-32C of the arrays, their
  /// types and lengths, and of the splits.
  std::uint64_t fingerprint() const { return sum_; }

  struct parts;
  /// Splits at random: of n examples, `validation` has floor(`validation_fraction` x n), but at most `most`; `train`
  /// has the others. The same seed gives the same parts on every machine. A part can be split again. Throws `error`
  /// unless 0 <= `validation_fraction` <= 1 and 0 <= `most`, and for a part of eight splits.
  parts split(double validation_fraction, std::uint64_t seed = 0,
              std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  /// The splits that led to this part; empty: all examples of the arrays.
  examples_splits const& splits() const { return splits_; }

private:
  array_list inputs_, labels_;
  constrain::labels which_;
  std::shared_ptr<void const> storage_{};
  examples_splits splits_{};
  std::uint64_t sum_ = 0; ///< The fingerprint.

  examples part(examples_part const& of) const;
};

/// The result of `split`.
struct examples::parts {
  examples train, validation; // disjoint; together all examples
};

/// Finds the examples of a part in the arrays.
class examples_index {
public:
  /// `count`: the number of examples in the arrays.
  examples_index(examples_splits const& splits, std::int64_t count);

  /// Number of examples in the part.
  std::int64_t size() const { return size_; }
  /// The index in the arrays of example `i` of the part, 0 <= i < `size()`.
  std::int64_t operator()(std::int64_t i) const;

private:
  /// Of one split: example i of the part is example p(first + i) of what was split, where p is the permutation of
  /// `seed` and `count`.
  struct step {
    std::uint64_t seed = 0;
    std::int64_t count = 0, first = 0;
  };

  fixed_vector<step, examples_splits::capacity> steps_{};
  std::int64_t size_;
};

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/examples.ipp"
#endif
