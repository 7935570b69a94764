#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/narrow_weight/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel, like `round_stochastically_elements`, with accesses of 16 bytes. `elements.first` must be a
/// multiple of 8, and `elements.x` and `elements.y` must be aligned to 16 bytes.
struct round_stochastically_packs {
  round_stochastically_elements elements;

  __device__ void operator()(std::int64_t i) const {
    if (8 * i + 8 > elements.count) return elements(i);
    if (elements.norm_and_scale[1] == 0) return;
    float from[8];
    load_pack(elements.x + 8 * i, from);
    auto const bits = elements.bits_of(i);
    stored_pack<8, bfloat16> to;
    CT_UNROLL
    for (int k = 0; k < 4; ++k) {
      auto const low = round_stochastically(from[2 * k], bits.word[k]);
      auto const high = round_stochastically(from[2 * k + 1], bits.word[k] >> 16);
      to.units[k] = low.bits | static_cast<std::uint32_t>(high.bits) << 16;
    }
    store_stored(to, elements.y + 8 * i);
  }
};

template <class architecture> struct kernel<op::round_stochastically, cuda<architecture>> {
  static void run(call_of<op::round_stochastically> const& c, tensor<float const> x,
                  tensor<double const> norm_and_scale, tensor<bfloat16> y) {
    auto const body = stochastic_rounding(cuda<architecture>{}, c, x, norm_and_scale, y);
    bool const takes_packs = body.first % 8 == 0 && are_aligned(x.data, y.data);
    if (takes_packs) for_elements(cuda<architecture>{}, c, body.draws(), round_stochastically_packs{body});
    else for_elements(cuda<architecture>{}, c, body.draws(), body);
  }
};

} // namespace constrain
