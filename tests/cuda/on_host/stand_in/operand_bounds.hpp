#pragma once

#include "stream.hpp"

#include <vector>

namespace on_host {

/// Bytes that a call may touch.
struct byte_range {
  void const* begin;
  std::size_t bytes;
};

/// Under AddressSanitizer: until `allow_all`, kernels may touch only these bytes of an arena. So a call that leaves its
/// operands is found where it does, though it stays inside the arena. Without AddressSanitizer this is nothing.
inline void allow_only([[maybe_unused]] void* arena, [[maybe_unused]] std::size_t bytes,
                       [[maybe_unused]] std::vector<byte_range> const& ranges) {
#if defined(ON_HOST_ASAN)
  finish_all();
  __asan_poison_memory_region(arena, bytes);
  for (auto const& r : ranges) __asan_unpoison_memory_region(r.begin, r.bytes);
#endif
}
/// Runs what was started, and allows all of the arena again.
inline void allow_all([[maybe_unused]] void* arena, [[maybe_unused]] std::size_t bytes) {
#if defined(ON_HOST_ASAN)
  finish_all();
  __asan_unpoison_memory_region(arena, bytes);
#endif
}

} // namespace on_host
