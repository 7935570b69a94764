#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/cpu/random_lanes.hpp"
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
  auto const samples = x.shape().rank == 0 ? 1 : x.shape().extent[0], sample_elements = y.count / samples;
  auto const threshold = static_cast<float>(probability);
  auto const scale = static_cast<arithmetic<stored>>(1 / (1 - probability));
  random_stream const stream{c.parameters.seed, c.parameters.step, c.random_key, c.iteration};
  auto const first_sample = c.first_sample;
  // A block: the elements of one sample that get their random words from one `random_lanes`.
  constexpr std::int64_t block_elements = random_lanes::words, chunk = 16384 / block_elements;
  auto const blocks = (sample_elements + block_elements - 1) / block_elements;
  parallel_chunks(samples * blocks, chunk, [=, &finish](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      auto const sample = i / blocks, in_sample = i % blocks * block_elements;
      random_lanes const lanes(stream, (first_sample + sample) << 32 | in_sample / 4);
      float uniforms[block_elements]; // a separate loop, because g++ does not vectorize `uniform` beside bf16
      simd_loop(block_elements, [&](std::int64_t k) { uniforms[k] = uniform(lanes.word[k]); });
      auto const first = sample * sample_elements + in_sample;
      simd_loop(std::min(block_elements, sample_elements - in_sample), [=, &finish, &uniforms](std::int64_t k) {
        y[first + k] = finish(first + k, stored(uniforms[k] < threshold ? 0 : x[first + k] * scale));
      });
    }
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
