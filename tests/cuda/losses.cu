// The losses of whole trainings beside the CPU's.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class... policies> void twenty_losses(double bound) {
  using on_cpu = ct::trainer<small, policies...>;
  using on_device = ct::trainer<small, policies..., device_policy>;
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

} // namespace

TEST_CASE("twenty losses as on the CPU") {
  twenty_losses<ct::optimizer::adamw>(1e-4);
  twenty_losses<ct::optimizer::adamw, ct::precision::fp64, ct::accumulate<2>>(1e-5);
  twenty_losses<ct::optimizer::adamw, ct::precision::bf16, ct::checkpoint::every<2>>(1e-2);
}
