#pragma once

#include "constrain/device/cpu/gemm_builtin.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The register tile of `tile_gemm`: rows x columns sums, a row of B and one element of A fit into the 16 (AVX-512: 32)
/// registers. For every instruction set, `rows` divides 8 and `columns` divides 96.
template <class real> struct register_tile : vector_of<real> {
  static constexpr int rows = vector_bytes == 64 ? 8 : 4;
  static constexpr int vectors = 3; // per row
  static constexpr int columns = vectors * vector_of<real>::lanes;
};

/// The range [begin, end) of the depth (the inner dimension) to sum over.
struct depth_range {
  std::int64_t begin, end;
};

/// A `depth_of` for `tile_gemm`: the same range of the depth for every row. All calls with this type share one
/// instantiation of `tile_gemm`, unlike calls with different lambdas.
struct same_depth {
  depth_range range; // of every row
  depth_range operator()(std::int64_t) const { return range; }
};

/// Computes one register tile of `tile_gemm`, with `vectors` vectors per row. `depth`: the range to sum over. `a` and
/// `b` point to the tile's first row of op(A) and first column of B, `c` to its first element. `column`: the tile's
/// first column in C, for `store`.
template <int vectors, transpose a_transposed, class real, class function>
inline void tile_micro(depth_range depth, real const* a, std::int64_t a_stride, real const* b, std::int64_t b_stride,
                       real* c, std::int64_t c_stride, std::int64_t column, function const& store) {
  using tile = register_tile<real>;
  using vector = typename tile::vector;
  using unaligned = typename tile::unaligned;
  [&]<std::size_t... row>(std::index_sequence<row...>) {
    [&]<std::size_t... v>(std::index_sequence<v...>) {
      vector sums[tile::rows][vectors] = {};
      real const* a_column = a + depth.begin * (a_transposed == transpose::yes ? a_stride : 1);
      real const* b_row = b + depth.begin * b_stride;
      for (std::int64_t p = depth.begin; p < depth.end; ++p) {
        vector const b_vectors[] = {*reinterpret_cast<unaligned const*>(b_row + v * tile::lanes)...};
        // The address is advanced before the sums: otherwise g++ would load `b_vectors` from memory again for every
        // row.
        b_row += b_stride;
        auto const add = [&](vector(&sum)[vectors], real x) { ((sum[v] += x * b_vectors[v]), ...); };
        if constexpr (a_transposed == transpose::yes) {
          (add(sums[row], a_column[row]), ...);
          a_column += a_stride;
        } else {
          (add(sums[row], a_column[static_cast<std::int64_t>(row) * a_stride]), ...);
          ++a_column;
        }
      }
      auto const store_row = [&](vector const(&sum)[vectors], real* to) {
        (store(to + v * tile::lanes, sum[v], column + static_cast<std::int64_t>(v) * tile::lanes), ...);
      };
      (store_row(sums[row], c + static_cast<std::int64_t>(row) * c_stride), ...);
    }
    (std::make_index_sequence<vectors>{});
  }
  (std::make_index_sequence<tile::rows>{});
}

/// A small row-major GEMM for tiles in the cache, without packing. The matrices are op(A) [rows, depth], B [depth,
/// columns] and C [rows, columns]. `a_stride`, `b_stride`, `c_stride`: elements from one stored row to the next. `rows`
/// must be a multiple of register_tile::rows, and `columns` a multiple of a vector's lanes. `depth_of(row)` returns the
/// range of the depth to sum over for the register tile that begins at `row`. `store(c, sum, column)` combines a vector
/// of sums with the elements at c, the first of which is in column `column` of C: see `overwrite` and `add_to`. Every
/// sum adds its terms in the order of the depth.
template <transpose a_transposed, class real, class range_function, class store_function>
void tile_gemm(std::int64_t rows, std::int64_t columns, range_function const& depth_of, real const* a,
               std::int64_t a_stride, real const* b, std::int64_t b_stride, real* c, std::int64_t c_stride,
               store_function const& store) {
  using tile = register_tile<real>;
  auto const compute_columns = [&]<int vectors>(std::integral_constant<int, vectors>, std::int64_t column) {
    for (std::int64_t row = 0; row < rows; row += tile::rows)
      tile_micro<vectors, a_transposed>(depth_of(row), a_transposed == transpose::yes ? a + row : a + row * a_stride,
                                        a_stride, b + column, b_stride, c + row * c_stride + column, c_stride, column,
                                        store);
  };
  for (std::int64_t column = 0; column < columns;) {
    auto const remaining = (columns - column) / tile::lanes;
    // Four vectors are split into two and two, not three and one, because a tile of one vector would be limited by the
    // latency of its additions.
    if (remaining == 3 || remaining > 4) {
      compute_columns(std::integral_constant<int, 3>{}, column);
      column += 3 * tile::lanes;
    } else if (remaining == 1) {
      compute_columns(std::integral_constant<int, 1>{}, column);
      column += tile::lanes;
    } else {
      compute_columns(std::integral_constant<int, 2>{}, column);
      column += 2 * tile::lanes;
    }
  }
}

/// For `tile_gemm`: C = sum.
struct overwrite {
  template <class real, class vector> void operator()(real* c, vector const& sum, std::int64_t) const {
    *reinterpret_cast<typename vector_of<real>::unaligned*>(c) = sum;
  }
};
/// For `tile_gemm`: C += sum.
struct add_to {
  template <class real, class vector> void operator()(real* c, vector const& sum, std::int64_t) const {
    *reinterpret_cast<typename vector_of<real>::unaligned*>(c) += sum;
  }
};
/// For `tile_gemm`: C = factor C + sum, with one factor per column.
template <class real> struct scale_and_add_to {
  real const* factor; // [columns]
  template <class vector> void operator()(real* c, vector const& sum, std::int64_t column) const {
    using unaligned = typename vector_of<real>::unaligned;
    auto& target = *reinterpret_cast<unaligned*>(c);
    target = target * *reinterpret_cast<unaligned const*>(factor + column) + sum;
  }
};

} // namespace constrain::detail
