#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/rotary_embedding/table.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::rotary_embedding, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::rotary_embedding> const& c, tensor<stored const> x, tensor<accumulate const> table,
                  tensor<stored> y) {
    run(c, x, table, tensor<std::int32_t const>(), y);
  }
  template <class stored, class accumulate>
  static void run(call_of<op::rotary_embedding> const& c, tensor<stored const> x, tensor<accumulate const> table,
                  tensor<std::int32_t const> positions, tensor<stored> y) {
    auto const width = table.features(), half = width / 2, heads = x.features() / width;
    auto const tokens = x.shape().extent[1];
    auto const from_stride = x.row_stride(), to_stride = y.row_stride();
    accumulate const sign = c.options.back ? accumulate(-1) : accumulate(1);
    parallel_chunks(x.rows(), 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        auto const position = positions.data == nullptr ? row % tokens : std::int64_t{positions[row]};
        accumulate const* const cosines = table.data + position * width;
        accumulate const* const sines = cosines + half;
        for (std::int64_t head = 0; head < heads; ++head) {
          stored const* const from = x.data + row * from_stride + head * width;
          stored* const to = y.data + row * to_stride + head * width;
          simd_loop(half, [=](std::int64_t j) {
            arithmetic<stored> const first = from[j], second = from[half + j], sine = sign * sines[j];
            to[j] = first * cosines[j] - second * sine;
            to[half + j] = second * cosines[j] + first * sine;
          });
        }
      }
    });
  }
};

} // namespace constrain
