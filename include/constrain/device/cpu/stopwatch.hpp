#pragma once

#include "constrain/program/variant.hpp"

#include <ctime>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Seconds since its construction. (The system's clock, because <chrono> is a tenth of what the library costs to include.)
class stopwatch {
public:
  double seconds() const {
    auto const t = now();
    return static_cast<double>(t.tv_sec - start_.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec - start_.tv_nsec);
  }

private:
  static std::timespec now() {
    std::timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
  }
  std::timespec start_ = now();
};

} // namespace constrain
