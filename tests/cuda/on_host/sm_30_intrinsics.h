#pragma once

// The shuffles and votes of a warp on the host: every lane of the mask waits until all of them have come. Of these only
// __syncwarp orders memory. __ballot_sync takes the mask of all lanes only.

#include "cuda_runtime.h"
#include "stand_in/warp.hpp"

template <class T> T __shfl_sync(unsigned mask, T x, int source, int width = 32) {
  auto const lane = static_cast<int>(threadIdx.x % 32), in_group = width - 1; // the width is a power of two
  return on_host::take_from_lane(mask, x, (lane & ~in_group) | (source & in_group));
}
template <class T> T __shfl_xor_sync(unsigned mask, T x, int other, int width = 32) {
  auto const lane = static_cast<int>(threadIdx.x % 32), source = lane ^ other;
  return on_host::take_from_lane(mask, x, source / width == lane / width || source < lane ? source : lane);
}
template <class T> T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
  auto const lane = static_cast<int>(threadIdx.x % 32), source = lane + static_cast<int>(by);
  return on_host::take_from_lane(mask, x, source / width == lane / width ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, int x) {
  unsigned bits = x != 0 ? 1u << threadIdx.x % 32 : 0;
  for (int other = 16; other > 0; other /= 2) bits |= __shfl_xor_sync(mask, bits, other);
  return bits;
}
inline int __any_sync(unsigned mask, int x) {
  bool any = false;
  for (int lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1u) != 0) any |= on_host::take_from_lane(mask, x, lane) != 0;
  return any ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) { on_host::exchanged<int>(mask, 0, true); }

/// What ptx_twins.cuh makes of shuffles where it is compiled for a device.
template <class T> class lane_values : public on_host::exchanged<T> {
public:
  explicit lane_values(T const& mine) : on_host::exchanged<T>(0xFFFFFFFF, mine) {}
};
