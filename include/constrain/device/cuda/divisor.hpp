#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Divides by an integer that is constant during a launch. Multiplies instead, because a GPU takes about a hundred
/// instructions to divide 64-bit integers. Source: T. Granlund, P. Montgomery, "Division by Invariant Integers using
/// Multiplication", PLDI 1994, section 4.
class divisor {
public:
  /// `d`: the divisor, at least 1.
  constexpr explicit divisor(std::int64_t d) {
    auto const unsigned_d = static_cast<std::uint64_t>(d);
    while (log_ < 63 && std::uint64_t{1} << log_ < unsigned_d) ++log_;
    // factor = floor(2^64 (2^log - d) / d) + 1, by long division
    auto remainder = (std::uint64_t{1} << log_) - unsigned_d;
    for (int bit = 0; bit < 64; ++bit) {
      remainder *= 2; // no overflow: the remainder was less than d, which is less than 2^63
      factor_ = factor_ * 2 + (remainder >= unsigned_d ? 1 : 0);
      remainder -= remainder >= unsigned_d ? unsigned_d : 0;
    }
    ++factor_;
  }

  /// `n` divided by the divisor, rounded down. `n` must be at least 0.
  CT_HOST_DEVICE constexpr std::int64_t quotient(std::int64_t n) const {
    auto const x = static_cast<std::uint64_t>(n), high = high_product(factor_, x);
    return static_cast<std::int64_t>((high + ((x - high) >> (log_ > 0 ? 1 : 0))) >> (log_ > 0 ? log_ - 1 : 0));
  }

private:
  /// The upper 64 bits of a 128-bit product.
  CT_HOST_DEVICE static constexpr std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#else
    constexpr std::uint64_t low = 0xFFFFFFFF;
    auto const ll = (a & low) * (b & low), lh = (a & low) * (b >> 32), hl = (a >> 32) * (b & low);
    auto const middle = (ll >> 32) + (lh & low) + (hl & low);
    return (a >> 32) * (b >> 32) + (lh >> 32) + (hl >> 32) + (middle >> 32);
#endif
  }

  std::uint64_t factor_ = 0;
  int log_ = 0; // the logarithm of the divisor to base 2, rounded up
};

} // namespace constrain
