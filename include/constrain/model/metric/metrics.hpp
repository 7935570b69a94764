#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/base/utf8.hpp"
#include "constrain/model/metric/class_counts.hpp"

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A metric of classification: a type with a name and a function of the counts of an evaluation:
///
///     struct recall_of_first {
///       static constexpr char const* name = "recall_of_first";
///       static double of(ct::class_counts const& c) { return c.correct(0) / c.labelled(0); }
///     };
///
/// A metric that needs a certain number of classes also has a function `static constexpr bool applies(std::int64_t
/// classes)`; if the result is false, the metric is left out.
template <class type> concept is_metric = requires(class_counts const& c) {
  {std::string_view(type::name)};
  { type::of(c) } -> std::convertible_to<double>;
};

/// The value of a metric.
struct metric_value {
  std::string_view name; // the metric's `name`
  double value = 0;      // NaN if the metric is not defined for the counts
};

/// The metrics of an evaluation, in the order of the objective's list.
using metric_values = fixed_vector<metric_value, 8>;

namespace detail {

/// Whether the metrics' names are unique, not empty, and different from the names of the other results.
template <class... listed> constexpr bool have_unique_names() {
  std::string_view const names[] = {"loss", "accuracy", "perplexity", listed::name...};
  for (std::size_t i = 0; i < std::size(names); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (names[i].empty() || names[i] == names[k]) return false;
  return true;
}

} // namespace detail

/// The metrics of an objective, at most eight, with unique names in UTF-8. An objective lists its metrics in its member
/// `metrics`; `evaluate` and `fit` report them if the first labels are one class per row of logits:
///
///     struct my_objective : ct::classification {
///       using metrics = ct::metrics<ct::macro_f1, recall_of_first>;
///     };
template <is_metric... listed> struct metrics {
  static_assert(sizeof...(listed) <= metric_values::capacity,
                "ct::metrics: an objective has more than eight metrics; list at most eight");
  static_assert(detail::have_unique_names<listed...>(),
                "ct::metrics: a metric has an empty name, the name of another metric, or the name loss, accuracy or "
                "perplexity; give each metric a unique name");

  static_assert((is_utf8(listed::name) && ...),
                "ct::metrics: the name of a metric is not UTF-8, but records contain it as JSON; encode the name in "
                "UTF-8");

  /// The values of the metrics that apply to the number of classes of `counts`, in the order of the list.
  static metric_values of([[maybe_unused]] class_counts const& counts) {
    metric_values values;
    (add<listed>(counts, values), ...);
    return values;
  }

private:
  template <class metric> static void add(class_counts const& counts, metric_values& values) {
    if constexpr (requires { metric::applies(counts.classes()); })
      if (!metric::applies(counts.classes())) return;
    values.push_back({metric::name, static_cast<double>(metric::of(counts))});
  }
};

} // namespace constrain
