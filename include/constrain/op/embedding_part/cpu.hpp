#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/embedding_part/embedding_part.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::embedding_part, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> table, tensor<std::int32_t const> tokens, tensor<stored> y) {
    auto const width = y.features(), rows = table.rows(), first = c.parameters.tensor->rank() * rows;
    parallel_chunks(tokens.count, 16, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        auto const row = tokens[i] - first;
        if (0 <= row && row < rows) std::copy_n(table.data + row * width, width, y.data + i * width);
        else std::fill_n(y.data + i * width, width, stored(0));
      }
    });
  }
};

template <> struct kernel<op::embedding_part_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<std::int32_t const> tokens,
                  tensor<accumulate> dtable) {
    auto const width = dy.features(), rows = dtable.rows(), first = c.parameters.tensor->rank() * rows;
    bool const add = c.add_to(0);
    // Each thread computes some of the columns, so that every row of dtable is summed in the order of the positions for
    // any number of threads.
    parallel_chunks(width, 64, [=](std::int64_t begin, std::int64_t end) {
      if (!add)
        for (std::int64_t row = 0; row < rows; ++row)
          std::fill(dtable.data + row * width + begin, dtable.data + row * width + end, accumulate(0));
      for (std::int64_t i = 0; i < tokens.count; ++i) {
        auto const row = tokens[i] - first;
        if (row < 0 || row >= rows) continue;
        accumulate* to = dtable.data + row * width;
        stored const* from = dy.data + i * width;
        CONSTRAIN_SIMD
        for (std::int64_t k = begin; k < end; ++k) to[k] += from[k];
      }
    });
  }
};

} // namespace constrain
