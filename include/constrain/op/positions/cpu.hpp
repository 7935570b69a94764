#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/positions/positions.hpp"

#include <algorithm>

namespace constrain {

template <> struct kernel<op::positions, cpu> {
  template <class real> static void run(call const&, tensor<real const> x, tensor<real const> table, tensor<real> y) {
    auto const plane = x.shape().extent[1] * x.features(); // of one sequence
    for_elements(y.count, [=](std::int64_t i) { y[i] = x[i] + table[i % plane]; });
  }
};

template <> struct kernel<op::positions_gradient, cpu> {
  template <class real, class sum_type> static void run(call const& c, tensor<real const> dy, tensor<sum_type> dtable) {
    auto const sequences = dy.shape().extent[0];
    auto const plane = dy.shape().extent[1] * dy.features();
    bool const add = c.add_to(0);
    parallel_chunks(dtable.count, 4096, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        sum_type sum = add ? dtable[i] : sum_type(0);
        if (i < plane)
          for (std::int64_t b = 0; b < sequences; ++b) sum += dy[b * plane + i];
        dtable[i] = sum;
      }
    });
  }
};

} // namespace constrain
