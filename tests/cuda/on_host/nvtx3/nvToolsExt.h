#pragma once

// The part of NVTX that the library uses, on the host: it notes the ranges.

#include <string>
#include <vector>

namespace on_host {

inline std::vector<std::string> ranges;      // names of all ranges that were pushed
inline std::vector<std::string> open_ranges; // those that were not popped yet, outermost first

} // namespace on_host

/// Returns the level of the range, from 0.
inline int nvtxRangePushA(char const* name) {
  on_host::ranges.emplace_back(name);
  on_host::open_ranges.emplace_back(name);
  return static_cast<int>(on_host::open_ranges.size()) - 1;
}
/// Returns the level of the range that ends; below 0 if there is none.
inline int nvtxRangePop() {
  if (on_host::open_ranges.empty()) return -2;
  on_host::open_ranges.pop_back();
  return static_cast<int>(on_host::open_ranges.size());
}
