#pragma once

// cp.async on the host. A copy's destination is NaN until the copy lands: at a random one of the thread's next calls of
// this header, at the latest when the thread waits for it. Its source is read only then.

#include "cuda_runtime.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace on_host {

struct copy_in_flight {
  void* to;
  void const* from;
  std::size_t bytes, zeros;
  std::uint64_t batch;

  void land() const {
    std::memcpy(to, from, bytes - zeros);
    std::memset(static_cast<char*>(to) + bytes - zeros, 0, zeros);
  }
};
/// A thread's copies that have not landed.
struct copies_of_thread {
  std::vector<copy_in_flight> all;
  std::uint64_t batch = 0; // batches that were committed

  template <class predicate> void land_if(predicate const& lands) {
    auto const left = std::partition(all.begin(), all.end(), [&](auto const& copy) { return !lands(copy); });
    std::for_each(left, all.end(), [](auto const& copy) { copy.land(); });
    all.erase(left, all.end());
  }
};
inline copies_of_thread copies[1024];
inline std::mt19937 landing{1};

} // namespace on_host

inline void __pipeline_memcpy_async(void* to, void const* from, std::size_t bytes, std::size_t zeros = 0) {
  auto const aligned = [&](void const* x) { return reinterpret_cast<std::uintptr_t>(x) % bytes == 0; };
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes || !aligned(to) || !aligned(from)) {
    std::fprintf(stderr,
                 "__pipeline_memcpy_async(): %zu bytes, %zu of them zeros, from %p to %p; "
                 "it copies 4, 8 or 16 bytes at a multiple of as many\n",
                 bytes, zeros, from, to);
    std::abort();
  }
  auto& mine = on_host::copies[threadIdx.x];
  mine.land_if([](auto const&) { return on_host::landing() % 4 == 0; });
  std::memset(to, 0xFF, bytes);
  mine.all.push_back({to, from, bytes, zeros, mine.batch});
}
inline void __pipeline_commit() {
  auto& mine = on_host::copies[threadIdx.x];
  ++mine.batch;
  mine.land_if([](auto const&) { return on_host::landing() % 4 == 0; });
}
inline void __pipeline_wait_prior(std::size_t left) {
  auto& mine = on_host::copies[threadIdx.x];
  mine.land_if([&](auto const& copy) { return copy.batch + left < mine.batch || on_host::landing() % 4 == 0; });
}
