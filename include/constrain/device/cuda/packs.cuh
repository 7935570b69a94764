#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

#include <cuda_runtime.h>

/// Loads and stores of several consecutive elements (a pack), up to 16 bytes per instruction.
namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

#if defined(__CUDACC__)
template <int bytes> struct word_of { using type = uint4; };
template <> struct word_of<8> { using type = uint2; };
template <> struct word_of<4> { using type = unsigned; };
#endif

/// Copies 4 or 8 bytes, or a multiple of 16. Both pointers must be multiples of as many bytes, but at most of 16.
template <int bytes> __device__ void copy_words(void const* from, void* to) {
#if defined(__CUDA_ARCH__)
  using word = typename word_of<bytes>::type;
  static_assert(bytes % sizeof(word) == 0);
  CT_UNROLL
  for (int i = 0; i < bytes / static_cast<int>(sizeof(word)); ++i)
    static_cast<word*>(to)[i] = static_cast<word const*>(from)[i];
#else
  __builtin_memcpy(to, from, bytes);
#endif
}

} // namespace detail

/// The number of elements in 16 bytes.
template <class T> inline constexpr int pack_of = 16 / static_cast<int>(sizeof(T));

/// Whether all arrays begin at multiples of 16 bytes.
template <class... pointers> bool are_aligned(pointers const*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
}
/// Whether kernels may access rows of `columns` elements in packs of 16 bytes of `T`: whether every row of every array
/// begins at a multiple of 16 bytes.
template <class T, class... pointers> bool takes_packs(std::int64_t columns, pointers const*... arrays) {
  return columns % pack_of<T> == 0 && are_aligned(arrays...);
}

/// Loads n consecutive elements. If n is not 1, `from` must be a multiple of min(16, bytes of n elements).
template <int n, class T, class real> __device__ void load_pack(T const* from, real (&to)[n]) {
  alignas(16) T elements[n];
  if constexpr (n == 1) elements[0] = *from;
  else detail::copy_words<static_cast<int>(sizeof(elements))>(from, elements);
  CT_UNROLL
  for (int i = 0; i < n; ++i) to[i] = elements[i];
}
/// n consecutive elements as numbers, for use as a value.
template <int n, class real> struct element_pack { real values[n]; };
/// Like `load_pack`, but returns the numbers.
template <int n, class T> __device__ element_pack<n, arithmetic<T>> loaded_pack(T const* from) {
  element_pack<n, arithmetic<T>> result;
  load_pack(from, result.values);
  return result;
}
/// Rounds n numbers to `T`, and stores them like `load_pack` loads.
template <int n, class T, class real> __device__ void store_pack(real const (&from)[n], T* to) {
  alignas(16) T elements[n];
  CT_UNROLL
  for (int i = 0; i < n; ++i) elements[i] = from[i];
  if constexpr (n == 1) *to = elements[0];
  else detail::copy_words<static_cast<int>(sizeof(elements))>(elements, to);
}

} // namespace constrain
