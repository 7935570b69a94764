#pragma once

#include "constrain/base/variant.hpp"

#include <algorithm>
#include <ctime>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Measures how long a thread has polled for other processes. The time between two calls to `seconds` counts as half a
/// second at most, so that a stop of this process (SIGSTOP) does not use up a deadline. The thread must call `seconds`
/// at least twice per second.
class waited_time {
public:
  /// Seconds since the construction, on the monotonic clock, without most of the time in which this process was
  /// stopped.
  double seconds() {
    double const time = now();
    waited_ += std::min(time - last_, 0.5);
    last_ = time;
    return waited_;
  }

private:
  static double now() {
    std::timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  double last_ = now(), waited_ = 0;
};

} // namespace constrain
