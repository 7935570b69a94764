// Several micro-batches, evaluation, generation, checked mode and saved runs of trainers on 2 CUDA devices.

#include "cuda/nccl/ranks.hpp"

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class... policies> std::vector<double> accumulated() {
  ct::trainer<small, ct::accumulate<2>, policies..., device_policy> t({.learning_rate = 3e-3f}, numbers);
  return train(t, 3);
}

/// The loss of an evaluation, and generated tokens, of a trainer after a step.
struct results {
  double loss = 0;
  std::vector<std::int32_t> tokens;
  friend bool operator==(results const&, results const&) = default;
};
template <class trainer> results results_of(trainer& t) {
  auto const w = tokens_for<trainer>(5);
  return {t.evaluate(w.inputs, w.labels).loss, t.generate(std::span(w.inputs).first(3), 4)};
}

void compare_entries(ct::communicator& world, std::string const& directory) {
  using sharded = ct::trainer<small, ct::parallel::zero<3, 2>, device_policy, ct::launch::graph>;
  using whole = ct::trainer<small, ct::parallel::ddp, device_policy>;
  auto checked = numbers;
  checked.checked = true;
  sharded zero({.learning_rate = 3e-3f}, numbers);
  whole ddp({.learning_rate = 3e-3f}, checked);
  check(same_bits(train(zero, 2), train(ddp, 2)), "checked mode changes the bits");
  auto const expected = results_of(ddp);
  check(results_of(zero) == expected, "evaluation or generation of shards");
  check(results_of(zero) == expected, "evaluation or generation of shards, replayed");
  zero.save(directory);
  whole again({.learning_rate = 3e-3f}, numbers);
  again.load(directory);
  check(same_bits(train(zero, 1), train(again, 1)), "a resumed run");
  world.barrier();
}

} // namespace

int main() {
  ct::mpi world;
  show_devices(world.size());
  auto const ddp = accumulated<ct::parallel::ddp>();
  check(same_bits(ddp, accumulated<ct::parallel::zero<1, 2>>()), "zero<1> is not ddp");
  check(same_bits(accumulated<ct::parallel::zero<2, 2>>(), accumulated<ct::parallel::zero<3, 2>>()),
        "zero<3> is not zero<2>");
  std::string const directory = "constrain-nccl-entries";
  compare_entries(world, directory);
  check(on_host::still_alive() == "", "still alive: " + on_host::still_alive());
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
