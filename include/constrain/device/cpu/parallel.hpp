#pragma once

#include "constrain/base/variant.hpp"

#include <algorithm>
#include <cstdint>

#if defined(_OPENMP)
#include <omp.h>
#define CONSTRAIN_PRAGMA_TEXT(...) _Pragma(#__VA_ARGS__)
/// An OpenMP directive, or nothing where the translation unit is compiled without OpenMP (an unknown pragma warns):
/// `CONSTRAIN_OMP(parallel for schedule(static))`.
#define CONSTRAIN_OMP(...) CONSTRAIN_PRAGMA_TEXT(omp __VA_ARGS__)
#else
#define CONSTRAIN_OMP(...)
#endif

/// In front of a loop whose iterations do not depend on one another, to be vectorised. clang does so unasked, and warns
/// where it is asked and cannot.
#if defined(__clang__)
#define CONSTRAIN_SIMD
#elif defined(_OPENMP)
#define CONSTRAIN_SIMD CONSTRAIN_OMP(simd)
#elif defined(__GNUC__)
#define CONSTRAIN_SIMD _Pragma("GCC ivdep")
#else
#define CONSTRAIN_SIMD
#endif

namespace constrain::inline CONSTRAIN_VARIANT {

/// How many threads a parallel loop started here would use; 1 without OpenMP and inside a parallel region.
inline int thread_count() noexcept {
#if defined(_OPENMP)
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

/// Calls `f(i)` for i in [0, count), vectorised. The calls must not depend on one another. A function, because what a
/// loop's own body makes (a bfloat16 that is then stored) g++ would keep in memory, one for each lane: six times
/// slower.
template <class function> void simd_loop(std::int64_t count, function const& f) {
  CONSTRAIN_SIMD
  for (std::int64_t i = 0; i < count; ++i) f(i);
}

/// Calls `body(index)` for every index in [0, count), on `thread_count()` threads with a static schedule.
/// The calls must be independent of one another and must not throw.
template <class function> void parallel_for(std::int64_t count, function const& body) {
  // A nested region, even of one thread, allocates; a plain loop does not.
  if (count < 2 || thread_count() == 1) {
    for (std::int64_t index = 0; index < count; ++index) body(index);
    return;
  }
  CONSTRAIN_OMP(parallel for schedule(static))
  for (std::int64_t index = 0; index < count; ++index) body(index);
}

/// Calls `body(begin, end)` for [0, chunk), [chunk, 2 chunk), ... up to `count`; the last chunk may be shorter.
/// `chunk` must be positive. The boundaries depend on `count` and `chunk` alone, so a reduction that keeps one partial
/// result a chunk (`begin / chunk` is its index) and adds them in order gives the same bits for any number of threads.
template <class function> void parallel_chunks(std::int64_t count, std::int64_t chunk, function const& body) {
  std::int64_t const chunks = count <= 0 ? 0 : (count - 1) / chunk + 1;
  parallel_for(chunks, [&](std::int64_t index) {
    std::int64_t const begin = index * chunk;
    body(begin, begin + std::min(chunk, count - begin));
  });
}

} // namespace constrain
