#pragma once

#include "constrain/base/bfloat16.hpp"
#include "constrain/base/float16.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The type of a tensor's elements in memory: unsigned (u8) or signed (i32) integers, or floating-point numbers; f16 is
/// IEEE 754 binary16.
enum class dtype : std::uint8_t { u8, i32, f16, bf16, f32, f64 };

/// The size of one element in bytes; 0 if `type` is not an enumerator.
constexpr std::int64_t size_of(dtype type) {
  switch (type) {
  case dtype::u8: return 1;
  case dtype::f16:
  case dtype::bf16: return 2;
  case dtype::i32:
  case dtype::f32: return 4;
  case dtype::f64: return 8;
  }
  return 0;
}

/// The type's name in printed programs and plans; "?" if `type` is not an enumerator.
constexpr char const* name_of(dtype type) {
  switch (type) {
  case dtype::u8: return "u8";
  case dtype::i32: return "i32";
  case dtype::f16: return "f16";
  case dtype::bf16: return "bf16";
  case dtype::f32: return "f32";
  case dtype::f64: return "f64";
  }
  return "?";
}

/// Whether `type` is a 16-bit floating-point type. The 16-bit types are only for storage: arithmetic on their elements
/// is in f32.
constexpr bool is_narrow(dtype type) { return type == dtype::f16 || type == dtype::bf16; }

/// Whether `type` is a floating-point type.
constexpr bool is_real(dtype type) { return is_narrow(type) || type == dtype::f32 || type == dtype::f64; }

/// The accumulation type for sums and statistics over elements of `type`: f32 for f16 and bf16, otherwise `type`
/// itself. Some sums, such as those of losses and gradient norms, are f64 instead.
constexpr dtype accumulator_of(dtype type) { return is_narrow(type) ? dtype::f32 : type; }

namespace detail {
template <dtype> struct storage_of;
template <> struct storage_of<dtype::u8> { using type = std::uint8_t; };
template <> struct storage_of<dtype::i32> { using type = std::int32_t; };
template <> struct storage_of<dtype::f16> { using type = float16; };
template <> struct storage_of<dtype::bf16> { using type = bfloat16; };
template <> struct storage_of<dtype::f32> { using type = float; };
template <> struct storage_of<dtype::f64> { using type = double; };
} // namespace detail

/// The C++ type that stores one element: `storage<dtype::f32>` is `float`.
template <dtype type> using storage = typename detail::storage_of<type>::type;

/// Calls f(x) and returns the result: `visit_real(type, [&]<class stored>(stored) { ... })`. x is a zero of the C++
/// type that stores elements of `type`; `f` must return the same type for every x. For a type that is not
/// floating-point, x is a float.
template <class function> constexpr decltype(auto) visit_real(dtype type, function const& f) {
  switch (type) {
  case dtype::f16: return f(float16{});
  case dtype::bf16: return f(bfloat16{});
  case dtype::f64: return f(double{});
  default: return f(float{});
  }
}

/// The dtype of a C++ type: `dtype_of<float>` is `dtype::f32`. Types without a specialization here, such as const
/// types, have `dtype::u8`.
template <class T> inline constexpr dtype dtype_of = dtype::u8;
template <> inline constexpr dtype dtype_of<std::int32_t> = dtype::i32;
template <> inline constexpr dtype dtype_of<float16> = dtype::f16;
template <> inline constexpr dtype dtype_of<bfloat16> = dtype::bf16;
template <> inline constexpr dtype dtype_of<float> = dtype::f32;
template <> inline constexpr dtype dtype_of<double> = dtype::f64;

/// Whether T is float16 or bfloat16, which are only for storage.
template <class T> inline constexpr bool is_narrow_type = is_narrow(dtype_of<std::remove_const_t<T>>);

/// The C++ type for arithmetic on elements of type T: float for float16 and bfloat16, otherwise T without const.
template <class T> using arithmetic = std::conditional_t<is_narrow_type<T>, float, std::remove_const_t<T>>;

} // namespace constrain
