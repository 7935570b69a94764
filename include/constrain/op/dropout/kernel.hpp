#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/random_stream.hpp"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/dropout/dropout.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: computes the elements of y that draw i covers. The four random words of a draw are for four
/// consecutive elements of one sample; the last draw of a sample may cover fewer.
template <class stored> struct dropout_quads {
  stored const* x;
  double const* rate;
  stored* y;
  std::int64_t per_sample, first_sample; // elements of a sample; index of x's first sample in the global batch
  int node;                              // random key of the node
  std::uint64_t iteration;               // index of the iteration over all enclosing loops except the micro-batch loop
  step_parameters const* parameters;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    if (*rate == 0 && x == y) return;
    auto const probability = static_cast<float>(*rate);
    auto const scale = static_cast<arithmetic<stored>>(1 / (1 - *rate));
    auto const quads = (per_sample + 3) / 4;
    auto const sample = i / quads, quad = i % quads;
    auto const bits =
        random_stream{parameters->seed, parameters->step, node, iteration}.draw(first_sample + sample, quad);
    auto const from = sample * per_sample + quad * 4;
    auto const left = per_sample - quad * 4;
    for (std::int64_t k = 0; k < (left < 4 ? left : 4); ++k)
      y[from + k] = uniform(bits.word[k]) < probability ? arithmetic<stored>(0) : x[from + k] * scale;
  }
};

template <class device> struct kernel<op::dropout, device> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<double const> rate, tensor<stored> y) {
    // Only the CPU kernel can read the rate on the host.
    if constexpr (!device::has_launches)
      if (rate[0] == 0) {
        if (x.data != y.data) for_elements(device{}, c, y.count, cast_elements<stored, stored>{x.data, y.data});
        return;
      }
    auto const samples = x.shape().rank == 0 ? 1 : x.shape().extent[0];
    auto const per_sample = y.count / samples;
    for_elements(device{}, c, samples * ((per_sample + 3) / 4),
                 dropout_quads<stored>{x.data, rate.data, y.data, per_sample, c.first_sample, c.random_key, c.iteration,
                                       parameters_on(device{}, c)});
  }
};

} // namespace constrain
