#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/random_stream.hpp"
#include "constrain/op/dropout/dropout.hpp"

#include <algorithm>

namespace constrain {

template <> struct kernel<op::dropout, cpu> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    if (c.numbers.dropout == 0) {
      if (x.data != y.data) for_elements(y.count, [=](std::int64_t i) { y[i] = x[i]; });
      return;
    }
    auto const rate = static_cast<float>(c.numbers.dropout);
    auto const scale = static_cast<arithmetic<real>>(1 / (1 - c.numbers.dropout));
    auto const samples = x.shape().rank == 0 ? 1 : x.shape().extent[0];
    auto const per_sample = y.count / samples;
    auto const quads = (per_sample + 3) / 4;
    auto const stream = random_stream{c.numbers.seed, c.numbers.step, c.random_key, c.trip};
    parallel_chunks(samples * quads, 1024, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        auto const sample = i / quads;
        auto const quad = i % quads;
        auto const bits = stream.draw(c.first_sample + sample, quad);
        auto const from = sample * per_sample + quad * 4;
        auto const n = std::min<std::int64_t>(4, per_sample - quad * 4);
        for (std::int64_t k = 0; k < n; ++k)
          y[from + k] = uniform(bits.word[k]) < rate ? arithmetic<real>(0) : x[from + k] * scale;
      }
    });
  }
};

} // namespace constrain
