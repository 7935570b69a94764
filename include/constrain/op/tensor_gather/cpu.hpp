#pragma once

#include "constrain/op/collective/cpu.hpp"
#include "constrain/op/tensor_gather/tensor_gather.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::tensor_gather, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored> y, tensor<stored> buffer) {
    auto& group = *c.parameters.tensor;
    auto const columns = x.features(), features = y.features(), ranks = std::int64_t{group.size()};
    auto const rows_per_exchange = buffer.count / (columns * ranks); // the last exchange may have fewer
    for (std::int64_t first_row = 0; first_row < x.rows(); first_row += rows_per_exchange) {
      auto const rows = std::min(rows_per_exchange, x.rows() - first_row);
      detail::gather_equal_counts(group, x.data + first_row * columns, rows * columns, buffer.data);
      parallel_chunks(rows, 16, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            auto const first = rank * columns;
            // If the rank has no features, the count is 0 or negative, and std::copy_n copies nothing.
            std::copy_n(buffer.data + (rank * rows + row) * columns, std::min(columns, features - first),
                        y.data + (first_row + row) * features + first);
          }
      });
    }
  }
};

template <> struct kernel<op::tensor_gather_gradient, cpu> {
  template <class stored> static void run(call const& c, tensor<stored const> dy, tensor<stored> dx) {
    auto const columns = dx.features(), features = dy.features(), first = c.parameters.tensor->rank() * columns;
    auto const valid_columns = std::clamp<std::int64_t>(features - first, 0, columns);
    parallel_chunks(dx.rows(), 16, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::copy_n(dy.data + row * features + first, valid_columns, dx.data + row * columns);
        std::fill_n(dx.data + row * columns + valid_columns, columns - valid_columns, stored(0));
      }
    });
  }
};

} // namespace constrain
