#pragma once

#include "constrain/model/metric/class_counts.hpp"

#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The F1 score of one class, the harmonic mean of precision and recall: 2 correct / (predicted + labelled). 0 if the
/// class is neither predicted nor a label.
inline double f1_of(class_counts const& c, std::int64_t label) {
  double const denominator = c.predicted(label) + c.labelled(label);
  return denominator > 0 ? 2 * c.correct(label) / denominator : 0;
}

} // namespace detail

/// The macro-averaged F1 score: the mean of the F1 scores of the classes. As in scikit-learn, classes that are neither
/// predicted nor a label do not count. NaN if nothing was counted.
struct macro_f1 {
  static constexpr char const* name = "macro_f1";

  /// The macro-averaged F1 score of an evaluation with these counts.
  static double of(class_counts const& c) {
    double sum = 0, classes = 0;
    for (std::int64_t i = 0; i < c.classes(); ++i)
      if (c.predicted(i) + c.labelled(i) > 0) sum += detail::f1_of(c, i), ++classes;
    return classes > 0 ? sum / classes : std::numeric_limits<double>::quiet_NaN();
  }
};

/// The F1 score of class 1, the positive class of two, as GLUE reports it for MRPC and QQP. 0 if class 1 is neither
/// predicted nor a label, as in scikit-learn. Not reported unless there are two classes.
struct binary_f1 {
  static constexpr char const* name = "f1";

  /// Whether the metric is reported: only for two classes.
  static constexpr bool applies(std::int64_t classes) { return classes == 2; }
  /// The F1 score of class 1 in an evaluation with these counts. `c` must have at least two classes.
  static double of(class_counts const& c) { return detail::f1_of(c, 1); }
};

} // namespace constrain
