#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/stopwatch.hpp"

#include <cstdlib>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether OpenMP's threads spin while they wait for one another, as far as the environment says: they do by default.
inline bool waiting_threads_spin() {
  if (thread_count() == 1) return false;
  char const* const policy = std::getenv("OMP_WAIT_POLICY");
  bool const sleeps = policy != nullptr && (policy[0] == 'p' || policy[0] == 'P');
  return !sleeps && std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("KMP_BLOCKTIME") == nullptr;
}

/// Seconds that a parallel loop takes to start and to end, in the mean over some: microseconds where every thread has a
/// processor of its own. Where other programs take the processors, one thread spins until the other one's turn comes:
/// milliseconds. Takes a few milliseconds in the one case and a tenth of a second in the other.
inline double parallel_loop_seconds() {
  constexpr int loops = 1000;
  constexpr double patience = 0.1;
  auto const start_all = [] { parallel_for(thread_count(), [](std::int64_t) {}); };
  start_all(); // makes the threads
  stopwatch const since;
  int done = 0;
  for (; done < loops && since.seconds() < patience; ++done) start_all();
  return since.seconds() / done;
}

/// Whether spinning costs more than sleeping would. Two Zen 5 cores, a small GPT-2, tokens per second of one thread, of
/// two that spin and of two that sleep: alone 59,000, 83,000 and 36,000; beside two busy programs 7,000, 300 and
/// 13,000. A loop takes 0.5 us where threads spin and 7 us where they sleep; beside two busy programs 30,000 us and 30
/// us.
constexpr bool spinning_hurts(double loop_seconds) { return loop_seconds > 100e-6; }

} // namespace constrain
