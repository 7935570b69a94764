#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Extents of one instance of a value, outermost first, row-major; rank 0 is a scalar. The iterations over which a
/// value is stacked are not part of its shape: see axis.hpp.
struct shape {
  static constexpr int maximum_rank = 4; // maximum number of dimensions

  std::int64_t extent[maximum_rank]{}; // the first `rank` are in use
  int rank = 0;                        // number of dimensions

  /// A scalar.
  constexpr shape() = default;
  /// A tensor with these extents, at most `maximum_rank` of them, outermost first. A program refuses a value with an
  /// extent below 1.
  template <class... extents>
  constexpr explicit shape(std::int64_t first, extents... rest)
      : extent{first, static_cast<std::int64_t>(rest)...}, rank(1 + static_cast<int>(sizeof...(rest))) {
    static_assert(sizeof...(rest) < maximum_rank, "ct::shape: there are more than four extents; give at most four");
  }

  /// The product of all extents; 1 for a scalar.
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= extent[i];
    return product;
  }

  /// The innermost extent; 1 for a scalar.
  constexpr std::int64_t features() const { return rank == 0 ? 1 : extent[rank - 1]; }

  /// The number of vectors of `features()` elements: the product of the other extents, or 0 if `features()` is 0.
  constexpr std::int64_t rows() const { return elements() / (features() == 0 ? 1 : features()); }

  /// The same shape with a different innermost extent. The shape must not be a scalar.
  constexpr shape with_features(std::int64_t features) const {
    auto copy = *this;
    copy.extent[rank - 1] = features;
    return copy;
  }

  /// The same shape without dimension `i`.
  constexpr shape without(int i) const {
    shape result;
    for (int j = 0; j < rank; ++j)
      if (j != i) result.extent[result.rank++] = extent[j];
    return result;
  }

  friend constexpr bool operator==(shape const& a, shape const& b) {
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; ++i)
      if (a.extent[i] != b.extent[i]) return false;
    return true;
  }
};

} // namespace constrain
