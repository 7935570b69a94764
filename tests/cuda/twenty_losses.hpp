#pragma once

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

namespace constrain::test {

/// Trains twenty steps under these policies, on the device and on the CPU. `bound`: how far the losses may be apart,
/// relative to the CPU's.
template <class... policies> void twenty_losses(double bound) {
  using on_cpu = trainer<small, policies...>;
  using on_device = trainer<small, policies..., device_policy>;
  typename on_cpu::hyper const hyper{.learning_rate = 3e-3f};
  on_cpu cpu(hyper, numbers);
  on_device device({.learning_rate = 3e-3f}, numbers);
  CAPTURE(on_device::policy_set::name());
  CHECK(same_bits(weights_of(cpu), weights_of(device)));
  auto const expected = losses_of(cpu, 20), got = losses_of(device, 20);
  CHECK(expected.back() < expected.front());
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    auto const off = std::abs(got[i] - expected[i]);
    if (!(off / expected[i] <= largest)) largest = off / expected[i]; // a NaN stays
    CHECK(off <= bound * expected[i]);
  }
  std::printf("distance of twenty losses, %s: %.2e of the loss; the bound is %.0e\n",
              std::string(on_device::policy_set::name()).c_str(), largest, bound);
}

} // namespace constrain::test
