#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Calls `f(i)` for i in [0, count), vectorized, on up to `thread_count()` threads. The calls must be independent and
/// must not throw.
template <class function> void for_elements(std::int64_t count, function const& f) {
  // Elements per chunk. Fewer elements are not worth starting another thread.
  constexpr std::int64_t chunk = 16384;
  parallel_chunks(count, chunk, [&](std::int64_t begin, std::int64_t end) {
    simd_loop(end - begin, [=, &f](std::int64_t i) { f(begin + i); });
  });
}

} // namespace constrain
