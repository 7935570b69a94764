#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/random_stream.hpp"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/dropout/dropout.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Element 4 i and the three after it, of a sample padded to a multiple of four.
template <class real> struct dropout_quads {
  real const* x;
  real* y;
  std::int64_t per_sample, first_sample;
  int node;
  std::uint64_t iteration;
  run_numbers const* numbers;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const rate = static_cast<float>(numbers->dropout);
    auto const scale = static_cast<arithmetic<real>>(1 / (1 - numbers->dropout));
    auto const quads = (per_sample + 3) / 4;
    auto const sample = i / quads, quad = i % quads;
    auto const bits = random_stream{numbers->seed, numbers->step, node, iteration}.draw(first_sample + sample, quad);
    auto const from = sample * per_sample + quad * 4;
    auto const left = per_sample - quad * 4;
    for (std::int64_t k = 0; k < (left < 4 ? left : 4); ++k)
      y[from + k] = uniform(bits.word[k]) < rate ? arithmetic<real>(0) : x[from + k] * scale;
  }
};

template <class device> struct kernel<op::dropout, device> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    if (c.numbers.dropout == 0) {
      if (x.data != y.data) for_elements(device{}, c, y.count, cast_elements<real, real>{x.data, y.data});
      return;
    }
    auto const samples = x.shape().rank == 0 ? 1 : x.shape().extent[0];
    auto const per_sample = y.count / samples;
    for_elements(device{}, c, samples * ((per_sample + 3) / 4),
                 dropout_quads<real>{x.data, y.data, per_sample, c.first_sample, c.random_key, c.iteration, numbers_on(device{}, c)});
  }
};

} // namespace constrain
