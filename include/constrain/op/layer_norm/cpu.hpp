#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/layer_norm/layer_norm.hpp"
#include "constrain/op/sum_parts/cpu.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Computes layer_norm of one row, and the row's mean and rstd. `from`, `weight`, `bias` and `to`: [width]; `to` may be
/// `from`.
template <class stored, class accumulate>
void layer_norm_row(stored const* from, std::int64_t width, accumulate const* weight, accumulate const* bias,
                    accumulate epsilon, stored* to, accumulate& mean, accumulate& rstd) {
  accumulate const m = ordered_sum<accumulate>(0, width, [=](std::int64_t i) { return accumulate(from[i]); }) /
                       static_cast<accumulate>(width);
  accumulate const variance =
      ordered_sum<accumulate>(0, width, [=](std::int64_t i) { return (from[i] - m) * (from[i] - m); }) /
      static_cast<accumulate>(width);
  accumulate const r = 1 / math::sqrt(variance + epsilon);
  simd_loop(width, [=](std::int64_t i) { to[i] = (from[i] - m) * r * weight[i] + bias[i]; });
  mean = m;
  rstd = r;
}

/// Computes dx of layer_norm_gradient for the rows in [begin, end), and the sums of dweight and dbias over each chunk
/// of these rows: partial [chunks, 2, width], overwritten. dx[i] = finish(i, g), where i is the index of an element of
/// x and g the gradient with respect to x[i].
template <class stored, class accumulate, class function>
void layer_norm_part_gradient(std::int64_t begin, std::int64_t end, tensor<stored const> dy, tensor<stored const> x,
                              tensor<accumulate const> weight, tensor<accumulate const> mean,
                              tensor<accumulate const> rstd, tensor<stored> dx, tensor<accumulate> partial,
                              function const& finish) {
  auto const width = x.features(), rows = end - begin;
  constexpr auto chunks = op::layer_norm_gradient::chunks;
  parallel_for(chunks, [=](std::int64_t chunk) {
    accumulate* const sums = partial.data + chunk * 2 * width; // partial sums of this chunk: dweight, then dbias
    for (std::int64_t i = 0; i < 2 * width; ++i) sums[i] = 0;
    for (auto row = begin + rows * chunk / chunks; row < begin + rows * (chunk + 1) / chunks; ++row) {
      stored const* g = dy.data + row * width;
      stored const* from = x.data + row * width;
      stored* to = dx.data + row * width;
      accumulate const m = mean[row];
      accumulate const r = rstd[row];
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < width; ++i) {
        sums[i] += g[i] * ((from[i] - m) * r);
        sums[width + i] += g[i];
      }
      accumulate const sum = ordered_sum<accumulate>(0, width, [=](std::int64_t i) { return g[i] * weight[i]; });
      accumulate const product =
          ordered_sum<accumulate>(0, width, [=](std::int64_t i) { return g[i] * weight[i] * ((from[i] - m) * r); });
      accumulate const a = sum / static_cast<accumulate>(width);
      accumulate const b = product / static_cast<accumulate>(width);
      simd_loop(width, [=](std::int64_t i) {
        to[i] = finish(row * width + i, r * (g[i] * weight[i] - a - ((from[i] - m) * r) * b));
      });
    }
  });
}

/// Computes layer_norm_gradient of all rows. dx[i] = finish(i, g), where i is the index of an element of x and g the
/// gradient with respect to x[i]. `c` decides whether dweight (output 1) and dbias (output 2) are overwritten or added
/// to. `partial` [chunks, 2, width] is scratch.
template <class stored, class accumulate, class function>
void layer_norm_rows_gradient(call const& c, tensor<stored const> dy, tensor<stored const> x,
                              tensor<accumulate const> weight, tensor<accumulate const> mean,
                              tensor<accumulate const> rstd, tensor<stored> dx, tensor<accumulate> dweight,
                              tensor<accumulate> dbias, tensor<accumulate> partial, function const& finish) {
  auto const width = x.features();
  constexpr auto chunks = op::layer_norm_gradient::chunks;
  for_row_parts(x.rows(), dweight, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    layer_norm_part_gradient(begin, end, dy, x, weight, mean, rstd, dx, partial, finish);
    add_up_chunks(partial.data, chunks, 2 * width, width, dweight.data + part * width, c.add_to(1));
    add_up_chunks(partial.data + width, chunks, 2 * width, width, dbias.data + part * width, c.add_to(2));
  });
}

template <> struct kernel<op::layer_norm, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::layer_norm> const& c, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> bias, tensor<stored> y, tensor<accumulate> mean, tensor<accumulate> rstd) {
    auto const width = x.features();
    auto const epsilon = static_cast<accumulate>(c.options.epsilon);
    parallel_chunks(x.rows(), 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        layer_norm_row(x.data + row * width, width, weight.data, bias.data, epsilon, y.data + row * width, mean[row],
                       rstd[row]);
    });
  }
};

template <> struct kernel<op::layer_norm_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> mean, tensor<accumulate const> rstd, tensor<stored> dx,
                  tensor<accumulate> dweight, tensor<accumulate> dbias, tensor<accumulate> partial) {
    layer_norm_rows_gradient(c, dy, x, weight, mean, rstd, dx, dweight, dbias, partial,
                             [](std::int64_t, accumulate g) { return g; });
  }
};

} // namespace constrain
