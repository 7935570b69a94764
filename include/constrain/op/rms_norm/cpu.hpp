#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/rms_norm/rms_norm.hpp"
#include "constrain/op/sum_parts/cpu.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::rms_norm, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::rms_norm> const& c, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<stored> y, tensor<accumulate> rstd) {
    auto const width = x.features();
    auto const epsilon = static_cast<accumulate>(c.options.epsilon);
    parallel_chunks(x.rows(), 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* from = x.data + row * width;
        stored* to = y.data + row * width;
        auto const square = [=](std::int64_t i) { return accumulate(from[i]) * accumulate(from[i]); };
        accumulate const squares = ordered_sum<accumulate>(0, width, square);
        accumulate const r = 1 / math::sqrt(squares / static_cast<accumulate>(width) + epsilon);
        simd_loop(width, [=](std::int64_t i) { to[i] = from[i] * r * weight[i]; });
        rstd[row] = r;
      }
    });
  }
};

template <> struct kernel<op::rms_norm_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> rstd, tensor<stored> dx, tensor<accumulate> dweight,
                  tensor<accumulate> partial) {
    auto const width = x.features();
    constexpr auto chunks = op::rms_norm_gradient::chunks;
    for_row_parts(x.rows(), dweight, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      run_part(begin, end, dy, x, weight, rstd, dx, partial);
      add_up_chunks(partial.data, chunks, width, width, dweight.data + part * width, c.add_to(1));
    });
  }

private:
  /// Computes dx for the rows in [begin, end), and the sums of dweight over each chunk of these rows: partial
  /// [chunks, width], overwritten.
  template <class stored, class accumulate>
  static void run_part(std::int64_t begin, std::int64_t end, tensor<stored const> dy, tensor<stored const> x,
                       tensor<accumulate const> weight, tensor<accumulate const> rstd, tensor<stored> dx,
                       tensor<accumulate> partial) {
    auto const width = x.features(), rows = end - begin;
    constexpr auto chunks = op::rms_norm_gradient::chunks;
    parallel_for(chunks, [=](std::int64_t chunk) {
      accumulate* const sums = partial.data + chunk * width; // partial sums of dweight over this chunk's rows
      for (std::int64_t i = 0; i < width; ++i) sums[i] = 0;
      for (auto row = begin + rows * chunk / chunks; row < begin + rows * (chunk + 1) / chunks; ++row) {
        stored const* g = dy.data + row * width;
        stored const* from = x.data + row * width;
        stored* to = dx.data + row * width;
        accumulate const r = rstd[row];
        simd_loop(width, [=](std::int64_t i) { sums[i] += g[i] * (from[i] * r); });
        auto const product = [=](std::int64_t i) { return g[i] * weight[i] * (from[i] * r); };
        accumulate const mean = ordered_sum<accumulate>(0, width, product) / static_cast<accumulate>(width);
        simd_loop(width, [=](std::int64_t i) { to[i] = r * (g[i] * weight[i] - (from[i] * r) * mean); });
      }
    });
  }
};

} // namespace constrain
