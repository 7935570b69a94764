// parallel::zero on CUDA devices, in a group of as many ranks as there are: all three stages give the bits of ddp, with
// states and optimizers that are sharded in different ways, and in 16 bits.

#include "cuda/nccl/ranks.hpp"

#include <string>

namespace ct = constrain;
using namespace constrain::test;

namespace {

constexpr int ranks = CONSTRAIN_SHARDS;

template <class... policies> std::vector<double> trained(auto parallel) {
  ct::trainer<small, policies..., decltype(parallel), device_policy> t({.learning_rate = 3e-3f}, numbers);
  return train(t, 3);
}

template <class... policies> void every_stage_is_ddp() {
  auto const ddp = trained<policies...>(ct::parallel::ddp{});
  auto const is_ddp = [&](auto parallel) {
    auto const name = ct::trainer<small, policies..., decltype(parallel), device_policy>::policy_set::name();
    check(same_bits(ddp, trained<policies...>(parallel)), std::string(name) + " is not ddp");
  };
  is_ddp(ct::parallel::zero<1, ranks>{});
  is_ddp(ct::parallel::zero<2, ranks>{});
  is_ddp(ct::parallel::zero<3, ranks>{});
}

} // namespace

int main() {
  ct::mpi const world;
  show_devices(world.size());
  using adamw = ct::optimizer::adamw;
  if constexpr (ranks == 3) {
    every_stage_is_ddp<adamw>();
    every_stage_is_ddp<ct::precision::bf16, ct::optimizer::quantized<adamw, ct::optimizer::everything>>();
  } else {
    every_stage_is_ddp<ct::precision::fp16, ct::optimizer::muon<adamw>>();
    every_stage_is_ddp<ct::optimizer::adafactor>();
  }
  check(on_host::still_alive() == "", "still alive: " + on_host::still_alive());
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
