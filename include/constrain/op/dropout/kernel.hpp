#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/random_stream.hpp"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/dropout/dropout.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: the elements of draw i. The four random words of a draw are for four consecutive elements
/// of one sample; the last draw of a sample may have fewer elements.
template <class stored> struct dropout_quads {
  stored const* x;
  stored* y;
  std::int64_t per_sample, first_sample; // elements of a sample; index of x's first sample in the global batch
  int node;                              // random key of the node
  std::uint64_t iteration;               // number of the iteration of the loops around the call, without micro-batches
  step_parameters const* parameters;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const rate = static_cast<float>(parameters->dropout);
    auto const scale = static_cast<arithmetic<stored>>(1 / (1 - parameters->dropout));
    auto const quads = (per_sample + 3) / 4;
    auto const sample = i / quads, quad = i % quads;
    auto const bits =
        random_stream{parameters->seed, parameters->step, node, iteration}.draw(first_sample + sample, quad);
    auto const from = sample * per_sample + quad * 4;
    auto const left = per_sample - quad * 4;
    for (std::int64_t k = 0; k < (left < 4 ? left : 4); ++k)
      y[from + k] = uniform(bits.word[k]) < rate ? arithmetic<stored>(0) : x[from + k] * scale;
  }
};

/// Loop body of the kernel on a device with launches: copies the elements of draw i if the probability is 0. The device
/// decides, so that the launches do not depend on the probability.
template <class stored> struct dropout_or_copy {
  dropout_quads<stored> quads;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    if (quads.parameters->dropout != 0) return quads(i);
    if (quads.x == quads.y) return;
    auto const in_sample = (quads.per_sample + 3) / 4;
    auto const begin = i / in_sample * quads.per_sample + i % in_sample * 4;
    auto const end = (i / in_sample + 1) * quads.per_sample;
    for (auto k = begin; k < (begin + 4 < end ? begin + 4 : end); ++k) quads.y[k] = quads.x[k];
  }
};

template <class device> struct kernel<op::dropout, device> {
  template <class stored> static void run(call const& c, tensor<stored const> x, tensor<stored> y) {
    auto const samples = x.shape().rank == 0 ? 1 : x.shape().extent[0];
    auto const per_sample = y.count / samples;
    auto const draws = samples * ((per_sample + 3) / 4);
    dropout_quads<stored> const quads{
        x.data, y.data, per_sample, c.first_sample, c.random_key, c.iteration, parameters_on(device{}, c)};
    if constexpr (device::has_launches) for_elements(device{}, c, draws, dropout_or_copy<stored>{quads});
    else if (c.parameters.dropout != 0) for_elements(device{}, c, draws, quads);
    else if (x.data != y.data) for_elements(device{}, c, y.count, cast_elements<stored, stored>{x.data, y.data});
  }
};

} // namespace constrain
