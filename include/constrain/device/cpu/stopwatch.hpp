#pragma once

#include "constrain/base/variant.hpp"

#include <ctime>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A stopwatch that uses the POSIX clock `clock` and starts at construction. It calls clock_gettime, because including
/// <chrono> costs compile time in every translation unit.
template <clockid_t clock> class stopwatch_of {
public:
  /// Seconds since construction.
  double seconds() const {
    auto const t = now();
    return static_cast<double>(t.tv_sec - start_.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec - start_.tv_nsec);
  }

private:
  static std::timespec now() {
    std::timespec t{};
    ::clock_gettime(clock, &t);
    return t;
  }
  std::timespec start_ = now();
};

/// Elapsed real time; setting the system's clock does not change it.
using stopwatch = stopwatch_of<CLOCK_MONOTONIC>;
/// CPU time of the calling thread; it does not advance while that thread is not running. Construct and read the
/// stopwatch on the same thread.
using thread_stopwatch = stopwatch_of<CLOCK_THREAD_CPUTIME_ID>;

} // namespace constrain
