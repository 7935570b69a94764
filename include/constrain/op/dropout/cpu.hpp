#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/random_stream.hpp"
#include "constrain/op/dropout/dropout.hpp"
#include "constrain/op/sum_parts/cpu.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// y[i] = finish(i, dropout(x[i], probability)) for every element i of x [samples, ...], where finish gets the rounded
/// result. Several threads call `finish`. `probability`: the probability with which an element becomes 0, in [0, 1).
/// The four random words of a draw are for four consecutive elements of one sample; the last draw of a sample may cover
/// fewer.
template <class stored, class function>
void dropout_elements(call const& c, tensor<stored const> x, double probability, tensor<stored> y,
                      function const& finish) {
  if (probability == 0) return for_elements(y.count, [=](std::int64_t i) { y[i] = finish(i, x[i]); });
  auto const samples = x.shape().rank == 0 ? 1 : x.shape().extent[0];
  auto const sample_elements = y.count / samples, quads = (sample_elements + 3) / 4;
  auto const threshold = static_cast<float>(probability);
  auto const scale = static_cast<arithmetic<stored>>(1 / (1 - probability));
  random_stream const stream{c.parameters.seed, c.parameters.step, c.random_key, c.iteration};
  auto const first_sample = c.first_sample;
  for_elements(samples * quads, [=](std::int64_t i) {
    auto const sample = i / quads, quad = i % quads;
    auto const bits = stream.draw(first_sample + sample, quad);
    auto const first = sample * sample_elements + quad * 4, remaining = sample_elements - quad * 4;
    for (std::int64_t k = 0; k < (remaining < 4 ? remaining : 4); ++k)
      y[first + k] = finish(first + k, stored(uniform(bits.word[k]) < threshold ? 0 : x[first + k] * scale));
  });
}

template <> struct kernel<op::dropout, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<double const> probability, tensor<stored> y) {
    if (probability[0] == 0 && x.data == y.data) return;
    dropout_elements(c, x, probability[0], y, [](std::int64_t, stored result) { return result; });
  }
};

template <> struct kernel<op::dropout_bias_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<double const> probability, tensor<stored> dx,
                  tensor<accumulate> dbias) {
    kernel<op::dropout, cpu>::run(c, dy, probability, dx);
    auto const width = dx.features();
    for_row_parts(dx.rows(), dbias, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      sum_rows(dx.data + begin * width, end - begin, width, dbias.data + part * width, c.add_to(1));
    });
  }
};

} // namespace constrain
