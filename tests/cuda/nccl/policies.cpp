// parallel::ddp and parallel::zero on CUDA devices, on 1, 2 or 4 ranks: the policies are equal bit for bit, a graph
// equals its eager run, and the losses are near those of ranks on the CPU.

#include "cuda/nccl/ranks.hpp"
#include "tolerances.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using precision = ct::precision::CONSTRAIN_PRECISION;
constexpr int steps = 5;

template <class... policies> std::vector<double> trained(ct::reduce reduce = ct::reduce::ordered) {
  auto run = numbers;
  run.reduce = reduce;
  ct::trainer<small, precision, policies...> t({.learning_rate = 3e-3f}, run);
  return train(t, steps);
}

/// Compares with ddp on the devices.
template <class... policies> void is_ddp(std::vector<double> const& ddp) {
  auto const name = std::string(ct::trainer<small, precision, policies..., device_policy>::policy_set::name());
  check(same_bits(ddp, trained<policies..., device_policy>()), name + " is not ddp");
}

/// Compares the losses with those of ranks on the CPU, within the tolerance of the precision.
void is_cpu(std::vector<double> const& device, std::vector<double> const& cpu) {
  double of_decrease = 0;
  for (auto const& t : tolerances)
    if (std::string(t.precision) == precision::name) of_decrease = t.of_decrease;
  double const decrease = std::max(cpu[0] - cpu[2 * steps - 2], 0.01 * cpu[0]);
  double largest = 0;
  for (std::size_t i = 0; i < 2 * steps; i += 2) largest = std::max(largest, std::abs(device[i] - cpu[i]) / decrease);
  std::printf("%s: losses %.1e of the decrease from the CPU's; the bound is %.0e\n", precision::name, largest,
              of_decrease);
  check(largest <= of_decrease, "the losses are not the CPU's");
}

} // namespace

int main() {
  ct::mpi const world;
  show_devices(world.size());
  auto const ddp = trained<ct::parallel::ddp, device_policy>();
  is_cpu(ddp, trained<ct::parallel::ddp>());
  is_ddp<ct::parallel::ddp, ct::launch::graph>(ddp);
  // The stand-in's own sums are in rank order, too.
  check(same_bits(ddp, trained<ct::parallel::ddp, device_policy>(ct::reduce::fast)), "reduce::fast is another sum");
  if (world.size() % 2 == 0) {
    check(same_bits(ddp, trained<ct::parallel::zero<2, 2>, device_policy>(ct::reduce::fast)),
          "reduce::fast of shards is another sum");
    is_ddp<ct::parallel::zero<1, 2>>(ddp);
    is_ddp<ct::parallel::zero<2, 2>>(ddp);
    is_ddp<ct::parallel::zero<3, 2>>(ddp);
    is_ddp<ct::parallel::zero<3, 2>, ct::launch::graph>(ddp);
  }
  check(on_host::still_alive() == "", "still alive: " + on_host::still_alive());
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
