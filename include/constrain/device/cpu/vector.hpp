#pragma once

#include "constrain/base/variant.hpp"

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

// Bytes of the widest vector register that the code is compiled for.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

/// A vector register of `real` (GCC vector extension): as a value, and as an unaligned type for loads and stores.
template <class real, int bytes = vector_bytes> struct vector_of {
  typedef real vector __attribute__((vector_size(bytes)));
  typedef real unaligned __attribute__((vector_size(bytes), aligned(alignof(real)), may_alias));
  static constexpr int lanes = bytes / static_cast<int>(sizeof(real));
};

/// The vector whose element i is element index[i] of the concatenation of a and b.
template <class vector, int... index>
inline vector shuffled(vector const& a, vector const& b, std::integer_sequence<int, index...>) {
#if defined(__CUDACC__)
  // nvcc does not correctly pass a parameter pack in the builtin to the host compiler.
  constexpr int lanes = sizeof...(index);
  vector out;
  int next = 0;
  ((out[next++] = index < lanes ? a[index % lanes] : b[index % lanes]), ...);
  return out;
#else
  return __builtin_shufflevector(a, b, index...);
#endif
}

} // namespace constrain::detail
