#include "fingerprints/training.hpp"

// Four processes: each with everything, in one group, in two groups. In fp64, where the last bits of the norm reach the
// weights.

namespace ct = constrain;
using namespace constrain::test;
using task = fingerprinted_task<2>;
using half_task = fingerprinted_task<1>;
using fp64 = ct::precision::fp64;

namespace {

template <class... policies> bool holds(int set) {
  return gives_recorded_bits<ct::trainer<policies...>>(set, {.learning_rate = 1e-2f, .weight_decay = 0.1f},
                                                       {.seed = 3, .clip_norm = 0.5, .dropout = 0.2});
}

} // namespace

// However many pieces and groups, the same bits.
static_assert(recorded[12].hash == recorded[13].hash && recorded[13].hash == recorded[14].hash);

int main() {
  bool const replicated = holds<task, fp64, ct::parallel::ddp>(12);
  bool const sharded = holds<task, fp64, ct::parallel::zero<3, 4>>(13);
  bool const grouped = holds<task, fp64, ct::parallel::zero<3, 2>>(14);
  bool const mixed =
      holds<half_task, ct::precision::bf16, ct::parallel::zero<3, 2>, ct::accumulate<2>, ct::checkpoint::every<2>>(15);
  return replicated && sharded && grouped && mixed ? EXIT_SUCCESS : EXIT_FAILURE;
}
