#pragma once

#include "constrain/op/collective/cpu.hpp"
#include "constrain/op/cross_entropy/cpu.hpp"
#include "constrain/op/cross_entropy_parts/cross_entropy_parts.hpp"

#include <algorithm>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The range of classes whose logits a rank holds (class_range_options).
struct class_range {
  std::int64_t first = 0; // first class of the range
  std::int64_t count = 0; // number of classes in the range; columns of the logits from `count` on are unused

  /// The range of `rank`. `columns`: columns of the rank's logits. `classes`: number of classes of all ranks together.
  class_range(int rank, std::int64_t columns, std::int64_t classes)
      : first(rank * columns), count(std::clamp<std::int64_t>(classes - first, 0, columns)) {}

  /// The column of the label's logit; `count` if another rank has this class; `ignored_label` if the label is ignored.
  std::int32_t column_of(std::int32_t label) const {
    if (label == ignored_label) return label;
    return static_cast<std::int32_t>(first <= label && label < first + count ? label - first : count);
  }
};

namespace detail {

/// The statistics that ranks exchange for each row of logits.
template <class real> struct row_statistics {
  real maximum;     // maximum of the rank's logits in this row
  real sum;         // sum of exp(logit - maximum) over these logits; of exp(logit) if the maximum is -infinity
  real label_logit; // the label's logit if this rank has it, otherwise 0
};

/// The logsumexp of a full row of logits, from the statistics of all ranks for this row: statistics[r * stride] holds
/// the statistics of rank r.
template <class real> real log_sum_exp(row_statistics<real> const* statistics, std::int64_t stride, int ranks) {
  real maximum = statistics[0].maximum, sum = 0;
  for (int rank = 1; rank < ranks; ++rank) maximum = std::max(maximum, statistics[rank * stride].maximum);
  for (int rank = 0; rank < ranks; ++rank) {
    auto const& shard = statistics[rank * stride];
    // If a rank's maximum is -infinity, the difference of the maxima can be NaN. Each of the rank's logits is then
    // -infinity or NaN, so its sum needs no factor: it is 0, or NaN if a logit is NaN.
    bool const has_maximum = shard.maximum != -std::numeric_limits<real>::infinity();
    sum += has_maximum ? shard.sum * math::exp_or_zero(shard.maximum - maximum) : shard.sum;
  }
  return maximum + math::log(sum);
}

} // namespace detail

template <> struct kernel<op::cross_entropy_parts, cpu> {
  template <class stored, class real>
  static void run(call_of<op::cross_entropy_parts> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double> loss,
                  tensor<real> row_log_sum_exp, tensor<double> row_loss, tensor<real> buffer) {
    using statistics = detail::row_statistics<real>;
    auto& group = *c.parameters.tensor;
    auto const columns = logits.features(), rows = labels.count;
    class_range const range(group.rank(), columns, c.options.classes);
    auto* const gathered = reinterpret_cast<statistics*>(buffer.data);
    auto* const local = gathered + group.rank() * rows;
    parallel_chunks(rows, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * columns;
        real const maximum = max_of(x, range.count);
        real const shift = maximum != -std::numeric_limits<real>::infinity() ? maximum : 0;
        auto const sum =
            ordered_sum<real>(0, range.count, [=](std::int64_t i) { return math::exp_or_zero(x[i] - shift); });
        auto const column = range.column_of(labels[row]);
        local[row] = {maximum, sum, 0 <= column && column < range.count ? real(x[column]) : real(0)};
      }
    });
    detail::gather_equal_counts(group, local, rows, gathered);
    int const ranks = group.size();
    parallel_chunks(rows, 64, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        row_log_sum_exp[row] = detail::log_sum_exp(gathered + row, rows, ranks);
        if (labels[row] == ignored_label) {
          row_loss[row] = 0;
          continue;
        }
        auto const& owner = gathered[labels[row] / columns * rows + row];
        row_loss[row] = static_cast<double>(row_log_sum_exp[row]) - static_cast<double>(owner.label_logit);
      }
    });
    add_up_loss(c, row_loss, inverse_count[0], loss);
  }
};

template <> struct kernel<op::cross_entropy_parts_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::cross_entropy_parts_gradient> const& c, tensor<double const> dloss,
                  tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<accumulate const> row_log_sum_exp, tensor<double const> inverse_count,
                  tensor<stored> dlogits) {
    auto const columns = logits.features();
    class_range const range(c.parameters.tensor->rank(), columns, c.options.classes);
    auto const scale = static_cast<accumulate>(dloss[0] * inverse_count[0]);
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored* const dlogits_row = dlogits.data + row * columns;
        cross_entropy_gradient_of(logits.data + row * columns, range.count, range.column_of(labels[row]),
                                  row_log_sum_exp[row], scale, dlogits_row);
        std::fill(dlogits_row + range.count, dlogits_row + columns, stored(0));
      }
    });
  }
};

} // namespace constrain
