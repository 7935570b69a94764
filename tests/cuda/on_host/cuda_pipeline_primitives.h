#pragma once

// cp.async on the host. A copy's destination is NaN until the copy lands: at a random one of the thread's next calls to
// this header, at the latest when the thread waits for it. Its source is read only then. A copy that nobody waits for
// may never land.

#include "cuda_runtime.h"
#include "stand_in/block.hpp"
#if defined(ON_HOST_COUNTS_ACCESSES)
#include "stand_in/accesses.hpp"
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
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
  std::uint64_t block = 0; // that they belong to

  static copies_of_thread& mine() {
    static copies_of_thread of[1024];
    auto& c = of[threadIdx.x];
    auto const block = on_host::block::current().number();
    if (c.block != block) c = {{}, 0, block};
    return c;
  }
  /// Takes out the copies that must land, and others by chance.
  template <class predicate> std::vector<copy_in_flight> landing(predicate const& must) {
    auto const left =
        std::partition(all.begin(), all.end(), [&](auto const& copy) { return !must(copy) && draw(4) != 0; });
    std::vector<copy_in_flight> now(left, all.end());
    all.erase(left, all.end());
    return now;
  }
};

/// Lets copies of this thread land; then `change` gets those that are left.
template <class function, class predicate> void land_copies(function const& change, predicate const& must) {
  std::vector<copy_in_flight> now;
  {
    bookkeeping const unseen;
    auto& mine = copies_of_thread::mine();
    now = mine.landing([&](auto const& copy) { return must(mine, copy); });
    change(mine);
  }
  for (auto const& copy : now) copy.land();
}

} // namespace on_host

inline void __pipeline_memcpy_async(void* to, void const* from, std::size_t bytes, std::size_t zeros = 0) {
  auto const aligned = [&](void const* x) { return reinterpret_cast<std::uintptr_t>(x) % bytes == 0; };
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes || !aligned(to) || !aligned(from))
    on_host::violated("__pipeline_memcpy_async",
                      on_host::text(bytes, " bytes, ", zeros, " of them zeros, from ", from, " to ", to),
                      "it copies 4, 8 or 16 bytes, from and to a multiple of as many");
#if defined(ON_HOST_COUNTS_ACCESSES)
  on_host::count_access(to, bytes);
  if (zeros < bytes) on_host::count_access(from, bytes - zeros);
#endif
  std::memset(to, 0xFF, bytes);
  on_host::land_copies(
      [&](auto& mine) {
        mine.all.push_back({to, from, bytes, zeros, mine.batch});
      },
      [](auto const&, auto const&) { return false; });
}
inline void __pipeline_commit() {
  on_host::land_copies([](auto& mine) { ++mine.batch; }, [](auto const&, auto const&) { return false; });
}
inline void __pipeline_wait_prior(std::size_t left) {
  on_host::land_copies([](auto&) {},
                       [&](auto const& mine, auto const& copy) { return copy.batch + left < mine.batch; });
}
