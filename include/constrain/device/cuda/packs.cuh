#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"
#include "constrain/device/cuda/ptx.cuh"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

/// Loads and stores of several consecutive elements (a pack), up to 16 bytes per instruction.
namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

#if defined(__CUDACC__)
template <int bytes> struct word_of { using type = uint4; };
template <> struct word_of<8> { using type = uint2; };
template <> struct word_of<4> { using type = unsigned; };
template <> struct word_of<2> { using type = unsigned short; };
#endif

/// Copies 2, 4 or 8 bytes, or a multiple of 16. Both pointers must be multiples of min(16, bytes).
template <int bytes> __device__ void copy_words(void const* from, void* to) {
#if defined(__CUDA_ARCH__)
  using word = typename word_of<bytes>::type;
  static_assert(bytes % sizeof(word) == 0);
  CT_UNROLL
  for (int i = 0; i < bytes / static_cast<int>(sizeof(word)); ++i)
    static_cast<word*>(to)[i] = static_cast<word const*>(from)[i];
#else // word by word as well, so that tests can count the accesses
  constexpr int word = bytes % 16 == 0 ? 16 : bytes;
  for (int at = 0; at < bytes; at += word)
    __builtin_memcpy(static_cast<char*>(to) + at, static_cast<char const*>(from) + at, word);
#endif
}

/// Like `copy_words`, to global memory. The instruction is written out, because the compiler does not always combine
/// the stores of the parts of a word.
template <int bytes> __device__ void store_words(void const* from, void* to) {
#if defined(__CUDA_ARCH__)
  if constexpr (bytes % 16 == 0) {
    CT_UNROLL
    for (int i = 0; i < bytes / 16; ++i) {
      auto const word = static_cast<uint4 const*>(from)[i];
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                   :
                   : "l"(__cvta_generic_to_global(static_cast<uint4*>(to) + i)), "r"(word.x), "r"(word.y), "r"(word.z),
                     "r"(word.w)
                   : "memory");
    }
  } else copy_words<bytes>(from, to);
#else
  copy_words<bytes>(from, to);
#endif
}

/// Stores two words of 16-bit elements, 8 bytes, in global memory, in one instruction. (The compiler combines the
/// stores of two fp32 elements by itself.)
__device__ inline void store_two_words(std::uint32_t const (&from)[2], void* to) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v2.u32 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(from[0]), "r"(from[1])
               : "memory");
#else
  copy_words<8>(from, to);
#endif
}

} // namespace detail

/// The number of elements of a pack in a kernel that accesses arrays of the types `T`: 16 bytes of the widest type.
/// Then a warp accesses contiguous memory in every array. With more elements, a lane would access the widest type in
/// several parts, and each access of the warp would touch the sectors of all parts.
template <class... T> inline constexpr int pack_of = 16 / static_cast<int>(std::max({sizeof(T)...}));

/// Whether all arrays begin at multiples of 16 bytes.
template <class... pointers> CT_HOST_DEVICE bool are_aligned(pointers const*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
}
/// Whether kernels may access contiguous rows of `columns` elements in packs of n: whether a row consists of complete
/// packs, and every array begins at a multiple of 16 bytes.
template <int n, class... pointers> bool takes_packs(std::int64_t columns, pointers const*... arrays) {
  return columns % n == 0 && are_aligned(arrays...);
}

/// Calls f(std::integral_constant<int, n>{}), where n is the number of elements per access to contiguous rows of
/// `columns` elements in these arrays: `pack_of` their types if they take such packs (takes_packs), else 1.
template <class function, class... types>
void with_packs(std::int64_t columns, function const& f, types const*... arrays) {
  constexpr int n = pack_of<types...>;
  if (takes_packs<n>(columns, arrays...)) f(std::integral_constant<int, n>{});
  else f(std::integral_constant<int, 1>{});
}

/// n consecutive elements in their stored type. A kernel that loads several packs before it uses the first has more
/// loads in flight.
template <int n, class T> struct stored_pack {
  /// Whether `units` are pairs: true for an even number of fp16 or bf16 elements. Pairs take fewer instructions to
  /// convert.
  static constexpr bool in_pairs = is_narrow_type<T> && n % 2 == 0;
  /// A pair of elements, the first in the lower half, or an element.
  using unit = std::conditional_t<in_pairs, std::uint32_t, T>;
  static constexpr int count = in_pairs ? n / 2 : n; // number of units

  alignas(16) unit units[count];

  /// Converts the elements to `real`.
  template <class real> __device__ void unpack(real (&to)[n]) const {
    if constexpr (in_pairs) {
      CT_UNROLL
      for (int i = 0; i < count; ++i) {
        float low, high;
        ptx::unpair<T>(units[i], low, high);
        to[2 * i] = low, to[2 * i + 1] = high;
      }
    } else {
      CT_UNROLL
      for (int i = 0; i < n; ++i) to[i] = units[i];
    }
  }
};
/// Loads n consecutive elements. n must be 1, or n elements must take 2, 4 or 8 bytes or a multiple of 16. If n is not
/// 1, `from` must be a multiple of min(16, bytes of n elements).
template <int n, class T> __device__ stored_pack<n, T> load_stored(T const* from) {
  stored_pack<n, T> result;
  if constexpr (n == 1) result.units[0] = *from;
  else detail::copy_words<static_cast<int>(n * sizeof(T))>(from, result.units);
  return result;
}
/// Like `load_stored`, but converts the elements to `real`.
template <int n, class T, class real> __device__ void load_pack(T const* from, real (&to)[n]) {
  load_stored<n>(from).unpack(to);
}
/// Loads the first `count` of n elements, one at a time, and sets the other elements of `to` to 0. If the results of a
/// kernel must not depend on the alignment, elements loaded with this function and with `load_pack` must share one copy
/// of the arithmetic: in two copies, the compiler may contract products and sums differently.
template <int n, class T, class real> __device__ void load_elements(T const* from, int count, real (&to)[n]) {
  CT_UNROLL
  for (int j = 0; j < n; ++j) to[j] = j < count ? arithmetic<T>(from[j]) : arithmetic<T>(0);
}
/// n elements of type `real`, as a value that functions can return.
template <int n, class real> struct element_pack { real values[n]; };
/// The elements of a pack, converted to `arithmetic<T>`.
template <int n, class T> __device__ element_pack<n, arithmetic<T>> unpacked(stored_pack<n, T> const& from) {
  element_pack<n, arithmetic<T>> result;
  from.unpack(result.values);
  return result;
}
/// Rounds n elements to `T`.
template <class T, int n, class real> __device__ stored_pack<n, T> rounded_pack(real const (&from)[n]) {
  stored_pack<n, T> result;
  CT_UNROLL
  for (int i = 0; i < stored_pack<n, T>::count; ++i) {
    if constexpr (stored_pack<n, T>::in_pairs) result.units[i] = ptx::pair_of<T>(from[2 * i], from[2 * i + 1]);
    else result.units[i] = from[i];
  }
  return result;
}
/// Stores n consecutive elements in global memory; n as for `load_stored`. If n is not 1, `to` must be a multiple of
/// min(16, bytes of n elements).
template <int n, class T> __device__ void store_stored(stored_pack<n, T> const& from, T* to) {
  if constexpr (n == 1) *to = from.units[0];
  else if constexpr (stored_pack<n, T>::in_pairs && n == 4) detail::store_two_words(from.units, to);
  else detail::store_words<static_cast<int>(n * sizeof(T))>(from.units, to);
}
/// Rounds n elements to `T`, and stores them like `store_stored`.
template <int n, class T, class real> __device__ void store_pack(real const (&from)[n], T* to) {
  store_stored(rounded_pack<T>(from), to);
}
/// Rounds the first `count` of n elements to `T`, and stores them one at a time.
template <int n, class T, class real> __device__ void store_elements(real const (&from)[n], int count, T* to) {
  CT_UNROLL
  for (int j = 0; j < n; ++j)
    if (j < count) to[j] = from[j];
}

} // namespace constrain
