#include "fingerprints/training.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

// Four processes: each with everything, in one group, in two groups. In fp64, where the last bits of the norm reach the
// weights.

namespace ct = constrain;
using namespace constrain::test;
using namespace constrain::parallel;
using task = fingerprinted_task<2>;
using half_task = fingerprinted_task<1>;
using fp64 = ct::precision::fp64;
using bf16 = ct::precision::bf16;

namespace {

template <class... policies> bool holds(int set) {
  return gives_recorded_bits<ct::trainer<policies...>>(set, {.learning_rate = 1e-2f, .weight_decay = 0.1f},
                                                       {.seed = 3, .clip_norm = 0.5, .dropout = 0.2});
}

/// The weights after training with several micro-batches to a batch.
template <class... policies> std::vector<double> weights() {
  return train<ct::trainer<half_task, policies..., ct::accumulate<3>, ct::checkpoint::every<2>>>(
             {.learning_rate = 1e-2f, .weight_decay = 0.1f}, {.seed = 3, .clip_norm = 0.5, .dropout = 0.2})
      .weights;
}

/// Strategies that add micro-batches and ranks in the same order are bit-identical.
template <class precision> bool agree(char const* name) {
  bool const ranks_last = weights<precision, ddp>() == weights<precision, zero<1, 2>>();
  bool const ranks_first = weights<precision, zero<2, 4>>() == weights<precision, zero<3, 2>>();
  if (!ranks_last) std::fprintf(stderr, "FAILED: %s: ddp and zero<1> differ over 3 micro-batches\n", name);
  if (!ranks_first) std::fprintf(stderr, "FAILED: %s: zero<2> and zero<3> differ over 3 micro-batches\n", name);
  return ranks_last && ranks_first;
}

} // namespace

// Bit-identical for any number of shards and groups.
static_assert(recorded[12].hash == recorded[13].hash && recorded[13].hash == recorded[14].hash);

int main() {
  bool const results[] = {
      holds<task, fp64, ddp>(12),        holds<task, fp64, zero<3, 4>>(13), holds<task, fp64, zero<3, 2>>(14),
      holds<task, fp64, zero<1, 4>>(13), holds<task, fp64, zero<1, 2>>(14), holds<task, fp64, zero<2, 4>>(13),
      holds<task, fp64, zero<2, 2>>(14),
  };
  bool const fp64_agrees = agree<fp64>("fp64"), bf16_agrees = agree<bf16>("bf16");
  bool all = fp64_agrees && bf16_agrees;
  for (bool result : results) all = all && result;
  bool const mixed = holds<half_task, bf16, zero<3, 2>, ct::accumulate<2>, ct::checkpoint::every<2>>(15);
  return all && mixed ? EXIT_SUCCESS : EXIT_FAILURE;
}
