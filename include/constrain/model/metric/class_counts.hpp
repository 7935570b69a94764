#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The predictions and labels of an evaluation, counted by class. A row of logits without a valid label does not count.
/// The prediction of a row is the class with the largest logit; of equal logits, the first; of logits that are all NaN,
/// none.
class class_counts {
public:
  /// A view of counts [3, classes], row-major, with the rows `correct`, `predicted` and `labelled`. The array must
  /// outlive this object.
  explicit class_counts(std::span<double const> counts) : counts_(counts) {}

  /// The number of classes.
  std::int64_t classes() const { return static_cast<std::int64_t>(counts_.size() / 3); }
  /// How many rows have this label and this prediction (true positives). Here and below, `label` must be in [0,
  /// `classes()`); this is not checked.
  double correct(std::int64_t label) const { return counts_[static_cast<std::size_t>(label)]; }
  /// How many rows have this prediction.
  double predicted(std::int64_t label) const { return counts_[static_cast<std::size_t>(classes() + label)]; }
  /// How many rows have this label.
  double labelled(std::int64_t label) const { return counts_[static_cast<std::size_t>(2 * classes() + label)]; }

private:
  std::span<double const> counts_;
};

} // namespace constrain
