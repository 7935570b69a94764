#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The 256 values that 8-bit codes represent, in ascending order: dynamic quantization (Dettmers 2016, "8-Bit
/// Approximations for Parallelism in Deep Learning"; Dettmers et al. 2022, "8-bit Optimizers via Block-wise
/// Quantization", sections 1.3 and 2.2). The values are 0, 1, and the midpoints of equal intervals of each decade
/// [0.1, 1], [0.01, 0.1], ..., [1e-7, 1e-6]. A signed map has 64, 32, ..., 1 intervals in these decades, and also
/// contains the negative midpoints. An unsigned map has 128, 64, ..., 2 intervals. The values are bit-identical to the
/// values of `create_dynamic_map` in bitsandbytes.
class dynamic_map {
public:
  static constexpr int codes = 256; // number of codes

  /// The code of the value 0 in the signed or the unsigned map.
  static constexpr int zero(bool is_signed) { return is_signed ? 127 : 0; }
  /// The map for values in [-1, 1] if `is_signed`, else in [0, 1]: one constant object per map, in host memory.
  static dynamic_map const& of(bool is_signed);

  /// The value of each code, [codes].
  CT_HOST_DEVICE float const* values() const { return values_; }

  /// The search for the code of the nearest value. A loop that uses a local copy of this object can keep the copy in
  /// registers.
  class search {
  public:
    /// The code of the value nearest to x. If x is very close to the midpoint of two adjacent values (within 1e-4 times
    /// their distance), the result may be the code of either value. An x outside the range of the map gives the code of
    /// the nearest end, and NaN the code of 0.
    CT_HOST_DEVICE int operator()(float x) const { return find(x, std::make_integer_sequence<int, zones>{}); }

  private:
    friend dynamic_map;
    static constexpr int zones = 8; // the decades, and the value 1

    /// |x|, at most 1, and 0 for NaN. Works on bits, because -ffast-math lets compilers assume that x is finite. (As
    /// integers, the bits of nonnegative floats have the same order as the floats.)
    CT_HOST_DEVICE static float clamped_magnitude(float x) {
      constexpr std::int32_t infinity = 0x7f800000, one = 0x3f800000;
      auto const bits = static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, x) & 0x7fffffffu);
      std::int32_t const at_most_one = bits < one ? bits : one;
      return __builtin_bit_cast(float, bits > infinity ? 0 : at_most_one);
    }

    template <int... i> CT_HOST_DEVICE int find(float x, std::integer_sequence<int, i...>) const {
      float const magnitude = clamped_magnitude(x);
      float slope = 0, intercept = 0, max_offset = 0;
      // The search has no branches, so that the compiler can vectorize a loop that calls this function.
      ((slope = magnitude > lower_bound_[i] ? slope_[i] : slope,
        intercept = magnitude > lower_bound_[i] ? intercept_[i] : intercept,
        max_offset = magnitude > lower_bound_[i] ? max_offset_[i] : max_offset),
       ...);
      float const scaled = magnitude * slope + intercept;
      int const offset = static_cast<int>(scaled < max_offset ? scaled : max_offset);
      return x < 0 ? zero_ - (offset < zero_ ? offset : zero_) : zero_ + offset;
    }

    // Zone i begins above lower_bound_[i]. In zone i, the code of |x| is zero_ + min(slope_[i] |x| + intercept_[i],
    // max_offset_[i]), rounded down.
    float lower_bound_[zones], slope_[zones], intercept_[zones], max_offset_[zones];
    int zero_;
  };
  /// The search in this map.
  CT_HOST_DEVICE search const& nearest() const { return nearest_; }

private:
  explicit dynamic_map(bool is_signed);

  float values_[codes]; // the value of each code
  search nearest_;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/op/quantized_update/dynamic_map.ipp"
#endif
