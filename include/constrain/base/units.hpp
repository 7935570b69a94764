#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/variant.hpp"

#include <compare>
#include <concepts>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A number of bytes. An integer converts to `bytes` only explicitly. Bytes times or divided by an integer are bytes;
/// bytes divided by bytes are a ratio. The operators do not check for overflow.
struct bytes {
  std::int64_t value = 0; // public, so that bytes can be a template argument

  /// 0 bytes.
  constexpr bytes() = default;
  /// `count` bytes.
  constexpr explicit bytes(std::int64_t count) : value(count) {}
  /// The number of bytes, and the number of MiB.
  constexpr std::int64_t count() const { return value; }
  constexpr double mebibytes() const { return static_cast<double>(value) / (1 << 20); }

  friend constexpr auto operator<=>(bytes, bytes) = default;
  friend constexpr bool operator==(bytes, bytes) = default; // nvcc 13 does not declare it implicitly with <=>
  /// Sum and difference.
  friend constexpr bytes operator+(bytes a, bytes b) { return bytes(a.value + b.value); }
  friend constexpr bytes operator-(bytes a, bytes b) { return bytes(a.value - b.value); }
  /// Integer multiples.
  template <std::integral integer> friend constexpr bytes operator*(integer n, bytes b) {
    return bytes(static_cast<std::int64_t>(n) * b.value);
  }
  template <std::integral integer> friend constexpr bytes operator*(bytes b, integer n) { return n * b; }
  /// Bytes divided by an integer, which must not be 0, rounded towards 0.
  template <std::integral integer> friend constexpr bytes operator/(bytes b, integer n) {
    return bytes(b.value / static_cast<std::int64_t>(n));
  }
  /// The ratio of two sizes, such as 2.5.
  friend constexpr double operator/(bytes a, bytes b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
  /// The compound assignments of the operators +, -, * and /.
  constexpr bytes& operator+=(bytes b) { return *this = *this + b; }
  constexpr bytes& operator-=(bytes b) { return *this = *this - b; }
  template <std::integral integer> constexpr bytes& operator*=(integer n) { return *this = *this * n; }
  template <std::integral integer> constexpr bytes& operator/=(integer n) { return *this = *this / n; }
};

namespace detail {

/// n units of `unit` bytes. Throws `error` if the number of bytes does not fit into 64 bits.
constexpr bytes bytes_of(std::int64_t n, std::int64_t unit) {
  if (n > INT64_MAX / unit || n < INT64_MIN / unit)
    throw error({"kibibytes, mebibytes, gibibytes: ", n, " units of ", unit,
                 " bytes do not fit into 64 bits; give a number closer to 0"});
  return bytes(n * unit);
}

} // namespace detail

/// n KiB, MiB and GiB: n times 2^10, 2^20 and 2^30 bytes. These functions throw `error` if the number of bytes does not
/// fit into 64 bits; in a constant expression, that is a compile-time error.
constexpr bytes kibibytes(std::int64_t n) { return detail::bytes_of(n, 1 << 10); }
constexpr bytes mebibytes(std::int64_t n) { return detail::bytes_of(n, 1 << 20); }
constexpr bytes gibibytes(std::int64_t n) { return detail::bytes_of(n, 1 << 30); }

/// A count with a unit. Integers convert to a quantity, so that options are simple to write (`{.steps = 500}`).
/// Quantities of different units do not convert to each other: micro-steps cannot be compared with optimizer steps.
template <class unit> class quantity {
public:
  /// 0.
  constexpr quantity() = default;
  /// `count` units; implicit, so that a literal can be a quantity: `.warmup = 100`.
  constexpr quantity(std::int64_t count) : count_(count) {}
  /// The number of units.
  constexpr std::int64_t count() const { return count_; }
  friend constexpr auto operator<=>(quantity, quantity) = default;
  friend constexpr bool operator==(quantity, quantity) = default; // nvcc 13: see `bytes`
  /// Sum and difference.
  friend constexpr quantity operator+(quantity a, quantity b) { return a.count_ + b.count_; }
  friend constexpr quantity operator-(quantity a, quantity b) { return a.count_ - b.count_; }

private:
  std::int64_t count_ = 0;
};

/// A number of optimizer steps: each processes one batch and updates the weights once. If the norm of all gradients is
/// not finite, the update is skipped (with `optimizer::in_backward`, only the updates of the tensors whose own gradient
/// norms are not finite).
using optimizer_steps = quantity<struct optimizer_step_unit>;
/// A number of micro-steps: each is the forward and backward pass of one micro-batch.
using micro_steps = quantity<struct micro_step_unit>;
/// A number of tokens.
using token_count = quantity<struct token_unit>;

/// The number of a weight update, counted from 1 as in Adam's bias correction (Kingma & Ba 2015). A skipped step
/// (`step_result::skipped`) has no number; with `optimizer::in_backward`, every step has one.
struct optimizer_step {
  std::int64_t number = 1; // counted from 1
};

} // namespace constrain
