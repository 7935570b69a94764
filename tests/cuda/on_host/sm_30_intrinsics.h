#pragma once

// The shuffles of a warp on the host. A lane puts its value down and pauses; when the block's other threads have paused
// too, it takes the value of another lane. So all threads of a block must make the same number of such calls between
// two barriers. Lanes that are not at the same call, or not in its mask, end the program.

#include "cuda_runtime.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace on_host {

/// What a thread puts down: two values in turn, so that the next call does not overwrite what is still to be read.
struct lane_values {
  std::uint64_t calls = 0;
  std::uint64_t value[2]{}, call[2]{};
  unsigned mask[2]{};
};
inline lane_values lanes[1024];

template <class T> T take_from_lane(unsigned mask, T x, int source) {
  static_assert(sizeof(T) <= 8);
  auto const me = threadIdx.x;
  auto& mine = lanes[me];
  auto const turn = ++mine.calls % 2;
  std::memcpy(&mine.value[turn], &x, sizeof x);
  mine.call[turn] = mine.calls;
  mine.mask[turn] = mask;
  block::current().barrier();
  auto const& from = lanes[me / 32 * 32 + static_cast<unsigned>(source)];
  if ((mask >> (me % 32) & 1u) == 0 || (mask >> source & 1u) == 0 || from.call[turn] != mine.call[turn] ||
      from.mask[turn] != mask) {
    std::fprintf(stderr, "__shfl_sync(): lane %u reads lane %d, which is not at the same call with the same mask\n",
                 me % 32, source);
    std::abort();
  }
  std::memcpy(&x, &from.value[turn], sizeof x);
  return x;
}

} // namespace on_host

template <class T> T __shfl_sync(unsigned mask, T x, int source, int width = 32) {
  auto const lane = static_cast<int>(threadIdx.x % 32);
  return on_host::take_from_lane(mask, x, lane / width * width + (source % width + width) % width);
}
template <class T> T __shfl_xor_sync(unsigned mask, T x, int other, int width = 32) {
  auto const lane = static_cast<int>(threadIdx.x % 32), source = lane ^ other;
  return on_host::take_from_lane(mask, x, source / width == lane / width || source < lane ? source : lane);
}
template <class T> T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
  auto const lane = static_cast<int>(threadIdx.x % 32), source = lane + static_cast<int>(by);
  return on_host::take_from_lane(mask, x, source / width == lane / width ? source : lane);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) {
  on_host::take_from_lane(mask, 0, static_cast<int>(threadIdx.x % 32));
}
