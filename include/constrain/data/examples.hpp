#pragma once

#include "constrain/base/array_view.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/data/lasting_arrays.hpp"
#include "constrain/data/masking.hpp"
#include "constrain/data/order.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// A random split of examples into two parts, train and validation, of which one was taken. See `examples::split`.
struct random_split {
  double validation_fraction = 0;    ///< Fraction of the examples to draw for validation, in [0, 1].
  std::int64_t validation_limit = 0; ///< Maximum number of examples to draw for validation, at least 0.
  std::uint64_t seed = 0;            ///< Seed of the draw.
  bool is_validation = false;        ///< Whether the validation part was taken; false: the train part.
};

/// The splits that led to a part, in order. A part results from at most eight splits.
using split_history = fixed_vector<random_split, 8>;

/// n examples in the caller's arrays, for tasks whose inputs and labels have shapes [sequences, ...]: a data set like
/// PyTorch's TensorDataset. The array of an input or label has the shape [n, ...], row-major. A trainer computes n from
/// the lengths of the arrays. For example:
///
///     ct::data::examples const training{{tokens, segments, lengths}, labels};
///     for (auto const& batch : t.batches(training)) t.step(batch);
///
/// The arrays are viewed, not copied: they must not change, and must outlive this object and all its copies and parts.
/// `from_storage` makes examples that keep their arrays alive.
class examples {
public:
  /// Makes examples from one array per input of the model and one per label of the objective. Each of `inputs` and
  /// `labels` is an array or a list of arrays, as in `trainer::batch`; a temporary std::vector or std::array does not
  /// compile. `label_kind`: as in `trainer::batch`. Throws `error` if `label_kind` is not an enumerator. Reads all
  /// arrays to compute the fingerprint.
  examples(lasting_arrays const& inputs, lasting_arrays const& labels,
           constrain::labels label_kind = constrain::labels::shifted);

  /// Makes examples from arrays that `storage` keeps alive. Otherwise like the constructor.
  static examples from_storage(std::shared_ptr<void const> storage, array_list const& inputs, array_list const& labels,
                               constrain::labels label_kind = constrain::labels::shifted);

  /// The input arrays. They hold all examples, including those that are not in this part.
  array_list const& inputs() const { return inputs_; }
  /// The label arrays. They hold all examples, including those that are not in this part.
  array_list const& labels() const { return labels_; }
  /// How next-token labels relate to the inputs.
  constrain::labels label_kind() const { return label_kind_; }

  /// A hash of the content. Upper 32 bits: length of all arrays in bytes, modulo 2^32. Lower 32 bits: CRC-32C of the
  /// arrays, their types and lengths, `label_kind()`, the splits and the masking.
  std::uint64_t fingerprint() const { return fingerprint_; }

  struct parts;
  /// Splits at random: of n examples, `validation` gets floor(`validation_fraction` x n) examples, but at most
  /// `validation_limit`; `train` gets all other examples. Either part may be empty. The same seed gives the same parts
  /// on every machine. A part can be split again. Throws `error` if `validation_fraction` is not in [0, 1], if
  /// `validation_limit` is negative, or if this part already results from eight splits.
  parts split(double validation_fraction, std::uint64_t seed = 0,
              std::int64_t validation_limit = std::numeric_limits<std::int64_t>::max()) const;
  /// The same examples for masked language modeling: whenever an example is copied into a batch, `mask_tokens`
  /// (data/masking.hpp) masks the first input (the tokens) and the first label in the copy. In these examples, each
  /// element of the first label must equal its token, or be `ignored_label` where the token must not be masked. Each
  /// epoch has different masks; evaluations use the masks of epoch 0. Throws `error` if these examples are already
  /// masked or have `labels::shift`, and as `check_masking` does.
  examples with_masks(masking const& options) const;
  /// How the tokens are masked; nullopt: no masking.
  std::optional<masking> const& masks() const { return masks_; }

  /// The splits that led to this part; empty: all examples of the arrays.
  split_history const& splits() const { return splits_; }

private:
  array_list inputs_, labels_;
  constrain::labels label_kind_;
  std::shared_ptr<void const> storage_{};
  split_history splits_{};
  std::optional<masking> masks_{};
  std::uint64_t fingerprint_ = 0;

  examples part(random_split const& split) const;
};

/// The result of `split`.
struct examples::parts {
  examples train, validation; // disjoint; together, the examples that were split
};

/// Finds the examples of a part in the arrays.
class examples_index {
public:
  /// `splits`: the splits that led to the part. `count`: the number of examples in the arrays.
  examples_index(split_history const& splits, std::int64_t count);

  /// The number of examples in the part.
  std::int64_t size() const { return size_; }
  /// The index in the arrays of example `i` of the part. `i` must be at least 0 and below `size()`.
  std::int64_t operator()(std::int64_t i) const;

private:
  /// One split of `count` examples: example i of the part is example p(first + i) of these examples, where p is the
  /// permutation that `seed` and `count` determine.
  struct split_part {
    std::uint64_t seed = 0;
    std::int64_t count = 0, first = 0;
  };

  fixed_vector<split_part, split_history::capacity> split_parts_{};
  std::int64_t size_;
};

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/examples.ipp"
#endif
