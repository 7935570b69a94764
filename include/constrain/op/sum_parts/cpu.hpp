#pragma once

#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/sum_parts/sum_parts.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Calls f(part, begin, end) for each part of a sum over `rows` rows, in order: part number `part` has the rows in
/// [begin, end). `sums` is [parts, features], or [features]: then there is one part, which has all rows.
template <class real, class function> void for_row_parts(std::int64_t rows, tensor<real> sums, function const& f) {
  auto const parts = sums.count / sums.features();
  for (std::int64_t part = 0; part < parts; ++part) f(part, rows * part / parts, rows * (part + 1) / parts);
}

template <> struct kernel<op::sum_parts, cpu> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    auto const width = y.features(), parts = x.shape().rows();
    for (std::int64_t instance = 0; instance < y.count / width; ++instance)
      add_up_chunks(x.data + instance * parts * width, parts, width, width, y.data + instance * width, c.add_to(0));
  }
};

} // namespace constrain
