#pragma once

#include "constrain/base/bfloat16.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The storage type of a tensor's elements.
enum class dtype : std::uint8_t { u8, i32, bf16, f32, f64 };

/// Bytes of one element.
constexpr std::int64_t size_of(dtype type) {
  switch (type) {
  case dtype::u8: return 1;
  case dtype::bf16: return 2;
  case dtype::i32:
  case dtype::f32: return 4;
  case dtype::f64: return 8;
  }
  return 0;
}

/// "f32", "bf16", ...
constexpr char const* name_of(dtype type) {
  switch (type) {
  case dtype::u8: return "u8";
  case dtype::i32: return "i32";
  case dtype::bf16: return "bf16";
  case dtype::f32: return "f32";
  case dtype::f64: return "f64";
  }
  return "?";
}

/// Whether elements are real numbers, not integers.
constexpr bool is_real(dtype type) { return type == dtype::bf16 || type == dtype::f32 || type == dtype::f64; }

/// In which type sums of elements are taken and statistics kept: 16-bit types are for storage alone.
constexpr dtype accumulator_of(dtype type) { return type == dtype::bf16 ? dtype::f32 : type; }

namespace detail {
template <dtype> struct storage_of;
template <> struct storage_of<dtype::u8> { using type = std::uint8_t; };
template <> struct storage_of<dtype::i32> { using type = std::int32_t; };
template <> struct storage_of<dtype::bf16> { using type = bfloat16; };
template <> struct storage_of<dtype::f32> { using type = float; };
template <> struct storage_of<dtype::f64> { using type = double; };
} // namespace detail

/// The C++ type that stores one element: `storage<dtype::f32>` is `float`.
template <dtype type> using storage = typename detail::storage_of<type>::type;

/// The dtype of a C++ type, the inverse of `storage`; u8 for types that are none.
template <class T> inline constexpr dtype dtype_of = dtype::u8;
template <> inline constexpr dtype dtype_of<std::int32_t> = dtype::i32;
template <> inline constexpr dtype dtype_of<bfloat16> = dtype::bf16;
template <> inline constexpr dtype dtype_of<float> = dtype::f32;
template <> inline constexpr dtype dtype_of<double> = dtype::f64;

/// The C++ type in which elements of type T are computed with.
template <class T>
using arithmetic = std::conditional_t<std::is_same_v<std::remove_const_t<T>, bfloat16>, float, std::remove_const_t<T>>;

} // namespace constrain
