#pragma once

#include <constrain/constrain.hpp>
#include <nccl.h>

#include "cuda/tasks.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// Programs that mpirun starts: each process is a rank, and plays its own device with the stand-in.

namespace constrain::test {

inline int failures = 0;

inline void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

/// Gives every process of the job a device of its own.
inline void show_devices(int count) { on_host::devices.resize(static_cast<std::size_t>(count)); }

/// Trains on batches of this rank; the losses, then the weights.
template <class trainer> std::vector<double> train(trainer& t, int steps) {
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) {
    auto const w = tokens_for<trainer>(static_cast<unsigned>(i % 3 * 8 + t.rank()));
    auto const r = t.step(t.batch(w.inputs, w.labels));
    all.push_back(r.loss), all.push_back(r.gradient_norm);
  }
  auto const weights = weights_of(t);
  all.insert(all.end(), weights.begin(), weights.end());
  return all;
}

} // namespace constrain::test
