// A checkpoint of the device, loaded on the device and on the CPU.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "temporary_directory.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("a checkpoint of the device goes on, on the device and on the CPU") {
  temporary_directory const directory;
  auto const path = directory / "checkpoint";
  using device = ct::trainer<small, device_policy, ct::launch::graph>;
  device whole({}, numbers);
  losses_of(whole, 4);
  whole.save(path);
  auto const expected = losses_of(whole, 4, 4);
  device resumed({}, numbers);
  resumed.load(path);
  CHECK(same_bits(losses_of(resumed, 4, 4), expected));
  CHECK(same_bits(weights_of(resumed), weights_of(whole)));
  ct::trainer<small> cpu({}, numbers);
  cpu.load(path);
  auto const there = losses_of(cpu, 4, 4);
  for (std::size_t i = 0; i < there.size(); ++i) CHECK(std::abs(there[i] - expected[i]) <= 1e-5 * expected[i]);
}
