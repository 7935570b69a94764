#pragma once

#include <algorithm>

namespace constrain::bench {

/// A machine's limits, measured (by cpu_limits.hpp or cuda/device_limits.cuh) in the same run as the results that are
/// compared with them.
struct limits {
  double flops = 0;                                 // per second; a multiply-add counts as two
  double copy = 0, triad = 0, read = 0, update = 0; // bytes per second; 0: not measured

  double bandwidth() const { return std::max({copy, triad, read, update}); }
  /// The shortest possible time for this work, if arithmetic and memory accesses overlap fully.
  double seconds(double operations, double bytes) const { return std::max(operations / flops, bytes / bandwidth()); }
};

} // namespace constrain::bench
