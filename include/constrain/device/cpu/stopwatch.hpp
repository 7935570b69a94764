#pragma once

#include "constrain/base/variant.hpp"

#include <ctime>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Seconds since its construction. (The system's clock, because <chrono> is a tenth of what the library costs to
/// include.)
template <clockid_t clock> class stopwatch_of {
public:
  /// Seconds since the construction.
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

/// Of wall-clock time.
using stopwatch = stopwatch_of<CLOCK_MONOTONIC>;
/// Of the calling thread's own processor time: stands still while another thread has the processor.
using thread_stopwatch = stopwatch_of<CLOCK_THREAD_CPUTIME_ID>;

} // namespace constrain
