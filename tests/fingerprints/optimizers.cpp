#include "fingerprints/training.hpp"

// All optimizers, in fp32.

namespace ct = constrain;
using namespace constrain::test;
using task = fingerprinted_task<6>;

int main() {
  bool const sgd = gives_recorded_bits<ct::trainer<task, ct::optimizer::sgd>>(0, {.learning_rate = 0.1f}, {.seed = 3});
  bool const momentum = gives_recorded_bits<ct::trainer<task, ct::optimizer::momentum>>(
      1, {.learning_rate = 0.1f, .weight_decay = 0.01f}, {.seed = 3, .clip_norm = 0.5});
  bool const nesterov = gives_recorded_bits<ct::trainer<task, ct::optimizer::nesterov>>(2, {.learning_rate = 0.1f},
                                                                                        {.seed = 3, .dropout = 0.2});
  bool const adamw = gives_recorded_bits<ct::trainer<task, ct::optimizer::adamw>>(
      3, {.learning_rate = 1e-2f, .weight_decay = 0.1f}, {.seed = 3, .clip_norm = 0.5, .dropout = 0.2});
  return sgd && momentum && nesterov && adamw ? EXIT_SUCCESS : EXIT_FAILURE;
}
