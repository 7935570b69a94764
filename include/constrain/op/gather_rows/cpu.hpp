#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/gather_rows/gather_rows.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Calls f(a, b) for each i < `rows.count`, where a points to row i of `selected`, and b to row rows[i] of `full`. A
/// row has `width` elements. Several threads call `f`, so if it writes to b, the indices in `rows` must be distinct.
template <class selected_type, class full_type, class function>
void for_rows(selected_type* selected, full_type* full, tensor<std::int32_t const> rows, std::int64_t width,
              function const& f) {
  constexpr std::int64_t elements = 16384; // per chunk, as in for_elements
  parallel_chunks(rows.count, std::max<std::int64_t>(elements / width, 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(selected + i * width, full + rows[i] * width);
  });
}

template <> struct kernel<op::gather_rows, cpu> {
  template <class stored>
  static void run(call const&, tensor<stored const> x, tensor<std::int32_t const> rows, tensor<stored> y) {
    auto const width = y.count / rows.count;
    for_rows(y.data, x.data, rows, width, [=](stored* to, stored const* from) { std::copy_n(from, width, to); });
  }
};

template <> struct kernel<op::scatter_rows, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<std::int32_t const> rows, tensor<stored> dx) {
    auto const width = dy.count / rows.count;
    if (!c.add_to(0)) for_elements(dx.count, [=](std::int64_t i) { dx[i] = stored(0); });
    for_rows(dy.data, dx.data, rows, width, [=](stored const* from, stored* to) {
      CONSTRAIN_SIMD
      for (std::int64_t k = 0; k < width; ++k) to[k] = to[k] + from[k];
    });
  }
};

} // namespace constrain
