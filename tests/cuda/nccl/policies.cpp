// parallel::ddp and parallel::zero on CUDA devices: the four are equal bit for bit, and a graph equals its eager run.

#include "cuda/nccl/ranks.hpp"

#include <algorithm>
#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class... policies> std::vector<double> on_devices() {
  ct::trainer<small, policies..., device_policy> t({.learning_rate = 3e-3f}, numbers);
  return train(t, 5);
}

} // namespace

int main() {
  ct::mpi const world;
  show_devices(world.size());
  auto const ddp = on_devices<ct::parallel::ddp>();
  ct::trainer<small, ct::parallel::ddp> cpu({.learning_rate = 3e-3f}, numbers);
  auto const expected = train(cpu, 5);
  double largest = 0;
  for (std::size_t i = 0; i < 10; ++i) largest = std::max(largest, std::abs(ddp[i] - expected[i]) / expected[i]);
  std::printf("rank %d: losses and norms %.1e from the CPU's\n", world.rank(), largest);
  check(largest <= 1e-4, "the losses are not the CPU's");
  check(same_bits(ddp, on_devices<ct::parallel::ddp, ct::launch::graph>()), "a graph is not its eager run");
  check(on_host::still_alive() == "", "still alive: " + on_host::still_alive());
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
