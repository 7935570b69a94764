#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/variant.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The name of a dtype in safetensors files, such as "BF16"; "?" if `type` is not an enumerator.
constexpr char const* name_in_files(dtype type) {
  switch (type) {
  case dtype::u8: return "U8";
  case dtype::i32: return "I32";
  case dtype::f16: return "F16";
  case dtype::bf16: return "BF16";
  case dtype::f32: return "F32";
  case dtype::f64: return "F64";
  }
  return "?";
}

/// The floating-point dtype with this name in safetensors files (F64, F32, BF16 or F16); nullopt for other names.
constexpr std::optional<dtype> floating_dtype(std::string_view name) {
  for (auto const type : {dtype::f64, dtype::f32, dtype::bf16, dtype::f16})
    if (name == name_in_files(type)) return type;
  return std::nullopt;
}

/// The size of one element of a safetensors dtype in bytes; 0 for a name that is not listed here.
constexpr std::size_t dtype_bytes(std::string_view dtype) {
  for (std::string_view const one_byte_dtype : {"U8", "I8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"})
    if (dtype == one_byte_dtype) return 1;
  for (std::string_view const two_byte_dtype : {"BF16", "F16", "I16", "U16"})
    if (dtype == two_byte_dtype) return 2;
  for (std::string_view const four_byte_dtype : {"F32", "I32", "U32"})
    if (dtype == four_byte_dtype) return 4;
  for (std::string_view const eight_byte_dtype : {"F64", "I64", "U64", "C64"})
    if (dtype == eight_byte_dtype) return 8;
  return 0;
}

namespace detail {

/// The product of a shape's extents, checked for overflow. An extent of 0 makes the product 0, however large the other
/// extents are.
class element_count {
public:
  /// Multiplies by an extent.
  constexpr void multiply(std::int64_t extent) {
    auto const factor = static_cast<std::uint64_t>(extent);
    negative_ = negative_ || extent < 0;
    empty_ = empty_ || extent == 0;
    if (negative_ || empty_) return;
    too_many_ = too_many_ || count_ > maximum / factor;
    if (!too_many_) count_ *= factor;
  }

  /// The product times `element_bytes`, the size of an element in bytes (at least 1); nullopt if an extent is negative
  /// or the result exceeds 2^63 - 1.
  constexpr std::optional<std::uint64_t> bytes(std::size_t element_bytes) const {
    if (negative_ || (!empty_ && (too_many_ || count_ > maximum / element_bytes))) return std::nullopt;
    return empty_ ? 0 : count_ * element_bytes;
  }

private:
  static constexpr std::uint64_t maximum = INT64_MAX;
  std::uint64_t count_ = 1;
  bool empty_ = false, negative_ = false, too_many_ = false;
};

} // namespace detail

/// The size of a tensor in bytes; a tensor without dimensions has one element. nullopt for a dtype that `dtype_bytes`
/// does not list, a negative extent or a size above 2^63 - 1.
constexpr std::optional<std::uint64_t> tensor_bytes(std::string_view dtype, std::vector<std::int64_t> const& shape) {
  auto const element_bytes = dtype_bytes(dtype);
  if (element_bytes == 0) return std::nullopt;
  detail::element_count count;
  // In libstdc++'s debug mode, iterators are not constexpr.
  for (std::size_t i = 0; i < shape.size(); ++i) count.multiply(shape[i]);
  return count.bytes(element_bytes);
}

} // namespace constrain::io
