#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/stopwatch.hpp"

#include <cstdlib>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether waiting OpenMP threads spin by default: true for several threads, unless the environment sets
/// GOMP_SPINCOUNT, KMP_BLOCKTIME or OMP_WAIT_POLICY=passive.
inline bool waiting_threads_spin() {
  if (thread_count() == 1) return false;
  char const* const policy = std::getenv("OMP_WAIT_POLICY");
  bool const sleeps = policy != nullptr && (policy[0] == 'p' || policy[0] == 'P');
  return !sleeps && std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("KMP_BLOCKTIME") == nullptr;
}

/// Mean time in seconds to start and end an empty parallel loop. With spinning threads, this time is at most a few
/// microseconds if every thread has a processor. If other programs compete for the processors, the time is
/// milliseconds, because running threads spin until the remaining threads are scheduled. The measurement takes
/// milliseconds, or 0.1 s if other programs compete.
inline double parallel_loop_seconds() {
  constexpr int loops = 1000;
  constexpr double time_limit = 0.1; // seconds
  auto const run_empty_loop = [] { parallel_for(thread_count(), [](std::int64_t) {}); };
  run_empty_loop(); // creates the threads
  stopwatch const timer;
  int completed = 0;
  do run_empty_loop(); // at least once: this thread may be preempted for longer than `time_limit`
  while (++completed < loops && timer.seconds() < time_limit);
  return timer.seconds() / completed;
}

/// Whether spinning costs more than sleeping, given the result of `parallel_loop_seconds`. On an idle machine with two
/// Zen 5 cores, training a small GPT-2 reaches 59,000 tokens per second with one thread, 83,000 with two spinning
/// threads and 36,000 with two sleeping threads. Beside two busy programs, training reaches 7,000, 300 and 13,000,
/// respectively. An empty parallel loop takes 0.5 us (spinning) and 7 us (sleeping) on the idle machine, and 30,000 us
/// and 30 us beside two busy programs.
constexpr bool spinning_is_slower(double loop_seconds) { return loop_seconds > 100e-6; }

} // namespace constrain
