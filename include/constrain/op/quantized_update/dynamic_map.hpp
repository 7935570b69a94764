#pragma once

#include "constrain/base/variant.hpp"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The 256 numbers that 8-bit codes stand for, in ascending order: dynamic quantization (Dettmers 2016, "8-Bit
/// Approximations for Parallelism in Deep Learning"; Dettmers et al. 2022, "8-bit Optimizers via Block-wise
/// Quantization", section 1.3). The numbers are 0, 1, and the midpoints of equal intervals of [0.1, 1], [0.01, 0.1], ...,
/// [1e-7, 1e-6]: of 64, 32, ..., 1 intervals if signed, which has the negative midpoints too, else of 128, 64, ..., 2.
/// They are bit for bit the ones of `create_dynamic_map` in bitsandbytes.
class dynamic_map {
public:
  static constexpr int codes = 256;

  /// The code of the number 0.
  static constexpr int zero(bool is_signed) { return is_signed ? 127 : 0; }
  /// The map for numbers in [-1, 1] if `is_signed`, else in [0, 1].
  static dynamic_map const& of(bool is_signed);

  /// The number of each code.
  float const* values() const { return values_; }

  /// Finds codes: a copy of what the search needs, so that a loop keeps it in registers.
  struct search {
    int zero;                  // code of 0
    std::int32_t const* first; // of the map
    float const* midpoints;    // of the map

    /// The code of the number nearest to x.
    int operator()(float x) const {
      auto const bits = __builtin_bit_cast(std::int32_t, x);
      auto const magnitude = bits & 0x7fffffff;
      // The upper bits of |x| select a cell of floats, which holds at most one boundary between two codes.
      auto const cell = std::min(std::max((magnitude >> 16) - first_cell, 0), cells - 1);
      auto const low = first[cell];
      auto const offset = low + static_cast<int>(__builtin_bit_cast(float, magnitude) > midpoints[low]);
      return zero + (bits < 0 ? -std::min(offset, zero) : offset);
    }
  };
  /// Finds the code of the number nearest to x.
  search nearest() const { return {zero_, first_, midpoints_}; }

private:
  explicit dynamic_map(bool is_signed);
  void fill_values(bool is_signed);
  void fill_search();

  // Cells have 7 bits of mantissa. The first one holds all numbers below 2^-24, which are nearest to 0; the last one
  // begins at 1.
  static constexpr int first_cell = (127 - 24) << 7, cells = (24 << 7) + 1;

  int zero_;                  // code of 0
  float values_[codes];       // by code
  float midpoints_[codes];    // between code zero_ + i and the next one; infinity behind the last code
  std::int32_t first_[cells]; // code of the smallest number of the cell, minus zero_
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/op/quantized_update/dynamic_map.ipp"
#endif
