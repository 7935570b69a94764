#pragma once

#include "constrain/base/variant.hpp"

#include <algorithm>
#include <cstdint>

#if defined(_OPENMP)
#include <omp.h>
#define CONSTRAIN_PRAGMA_TEXT(...) _Pragma(#__VA_ARGS__)
/// An OpenMP directive, for example `CONSTRAIN_OMP(parallel for schedule(static))`. Empty without -fopenmp, because
/// compilers would warn about an unknown pragma.
#define CONSTRAIN_OMP(...) CONSTRAIN_PRAGMA_TEXT(omp __VA_ARGS__)
#else
#define CONSTRAIN_OMP(...)
#endif

/// Asks the compiler to vectorize the next loop, whose iterations must be independent. Empty for clang, which
/// vectorizes such loops without a directive and warns about a directive that it cannot apply.
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

/// Maximum number of threads of a parallel loop of the calling thread; 1 without OpenMP, or inside a parallel region of
/// several threads.
inline int thread_count() noexcept {
#if defined(_OPENMP)
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

/// Calls `f(i)` for i in [0, count), vectorized. The calls must be independent. Loops whose bodies create objects of
/// class types such as bfloat16 should use this function: in a plain loop after CONSTRAIN_SIMD, g++ keeps these objects
/// in memory, one per lane, which is slower. `flatten` inlines `f`: g++ -O2 would call a long `f`, and a loop with a
/// call is not vectorized (the loss of 256 tokens and its gradient, with 50257 classes in bf16, took 74 ms instead of
/// 10.8 ms; one core, Zen 4).
template <class function> [[gnu::flatten]] void simd_loop(std::int64_t count, function const& f) {
  CONSTRAIN_SIMD
  for (std::int64_t i = 0; i < count; ++i) f(i);
}

/// Calls `body(index)` for every index in [0, count), on up to `thread_count()` threads with a static schedule. The
/// calls must be independent and must not throw.
template <class function> void parallel_for(std::int64_t count, function const& body) {
  // A nested region, even of one thread, allocates; a plain loop does not.
  if (count < 2 || thread_count() == 1) {
    for (std::int64_t index = 0; index < count; ++index) body(index);
    return;
  }
  CONSTRAIN_OMP(parallel for schedule(static))
  for (std::int64_t index = 0; index < count; ++index) body(index);
}

/// Calls `body(begin, end)` in parallel for the chunks [0, chunk), [chunk, 2 * chunk), ... of [0, count); the last
/// chunk may be shorter. `chunk` must be positive. The calls must be independent and must not throw. The chunks depend
/// only on `count` and `chunk`. A reduction is therefore bit-identical for any number of threads if it keeps one
/// partial result per chunk (at index `begin / chunk`) and adds the partial results in order.
template <class function> void parallel_chunks(std::int64_t count, std::int64_t chunk, function const& body) {
  std::int64_t const chunks = count <= 0 ? 0 : (count - 1) / chunk + 1;
  parallel_for(chunks, [&](std::int64_t index) {
    std::int64_t const begin = index * chunk;
    body(begin, begin + std::min(chunk, count - begin));
  });
}

} // namespace constrain
