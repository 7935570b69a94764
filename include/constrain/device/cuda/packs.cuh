#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

#include <cuda_runtime.h>

/// Loads and stores of several consecutive elements (a pack) by one instruction, at most 16 bytes each.
namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

template <int bytes> struct word_of { using type = uint4; };
template <> struct word_of<8> { using type = uint2; };
template <> struct word_of<4> { using type = unsigned; };
template <> struct word_of<2> { using type = unsigned short; };

/// Copies `bytes` bytes; both pointers are multiples of `bytes`, or of 16 if there are more.
template <int bytes> __device__ void copy_words(void const* from, void* to) {
  using word = typename word_of<(bytes < 16 ? bytes : 16)>::type;
  static_assert(bytes % sizeof(word) == 0);
  CT_UNROLL
  for (int i = 0; i < bytes / static_cast<int>(sizeof(word)); ++i)
    static_cast<word*>(to)[i] = static_cast<word const*>(from)[i];
}

} // namespace detail

/// The number of elements in 16 bytes.
template <class T> inline constexpr int pack_of = 16 / static_cast<int>(sizeof(T));

/// Whether kernels may access rows of `columns` elements in packs of 16 bytes of `T`: whether every row of every array
/// begins at a multiple of 16 bytes.
template <class T, class... pointers> bool takes_packs(std::int64_t columns, pointers const*... arrays) {
  return columns % pack_of<T> == 0 && ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
}

/// Loads n consecutive elements. If n is not 1, `from` must be a multiple of the bytes of n elements, or of 16.
template <int n, class T, class real> __device__ void load_pack(T const* from, real (&to)[n]) {
  T elements[n];
  if constexpr (n == 1) elements[0] = *from;
  else detail::copy_words<n* static_cast<int>(sizeof(T))>(from, elements);
  CT_UNROLL
  for (int i = 0; i < n; ++i) to[i] = elements[i];
}
/// Rounds n numbers to `T`, and stores them like `load_pack` loads.
template <int n, class T, class real> __device__ void store_pack(real const (&from)[n], T* to) {
  T elements[n];
  CT_UNROLL
  for (int i = 0; i < n; ++i) elements[i] = from[i];
  if constexpr (n == 1) *to = elements[0];
  else detail::copy_words<n* static_cast<int>(sizeof(T))>(elements, to);
}

} // namespace constrain
