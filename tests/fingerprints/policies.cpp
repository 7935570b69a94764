#include "fingerprints/training.hpp"

// Policies that change how a step is computed, in fp32 with adamw.

namespace ct = constrain;
using namespace constrain::test;
using task = fingerprinted_task<6>;
using half_task = fingerprinted_task<3>;

namespace {

template <class... policies> bool holds(int set) {
  return gives_recorded_bits<ct::trainer<policies...>>(set, {.learning_rate = 1e-2f, .weight_decay = 0.1f},
                                                       {.seed = 3, .clip_norm = 0.5, .dropout = 0.2});
}

} // namespace

int main() {
  bool const accumulated = holds<half_task, ct::accumulate<2>>(4);
  bool const recomputed = holds<task, ct::checkpoint::every<2>>(5);
  bool const plain = holds<task, ct::attention::reference, ct::fusion::none>(6);
  bool const fused = holds<half_task, ct::fusion::all, ct::accumulate<2>, ct::checkpoint::every<3>>(7);
  // Recomputing changes nothing.
  bool const same = recorded[5].hash == recorded[3].hash;
  return accumulated && recomputed && plain && fused && same ? EXIT_SUCCESS : EXIT_FAILURE;
}
