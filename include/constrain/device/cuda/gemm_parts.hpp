#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/transpose.hpp"

#include <cstdint>

/// How GEMMs are given to cuBLASLt, as plain functions, so that they can be tested on the host.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Extents of a GEMM, or of its parts. No matrix of a part spans 2^31 elements: cuBLASLt 13.6 has algorithms that its
/// heuristic returns, but that fail from there on (github.com/NVIDIA/raft, issue 3097).
struct gemm_extents {
  std::int64_t m = 0; // rows of op(A) and C
  std::int64_t n = 0; // columns of op(B) and C
  std::int64_t k = 0; // columns of op(A), rows of op(B)

  friend constexpr bool operator==(gemm_extents const&, gemm_extents const&) = default;
};

/// The elements that no matrix of a GEMM reaches, from the first element to the last, gaps between rows included.
inline constexpr std::int64_t gemm_limit = std::int64_t{1} << 31;

namespace detail {

/// The number of rows in all parts but the last, if `rows` rows of `leading` elements are cut into nearly equal parts
/// of less than `limit` elements, but at least one row. If a part has room for it, a multiple of 256 rows, so that all
/// parts are aligned as the first one.
constexpr std::int64_t rows_of_part(std::int64_t rows, std::int64_t leading, std::int64_t limit) {
  auto const most = leading < limit ? (limit - 1) / leading : 1;
  if (rows <= most) return rows;
  auto const parts = (rows + most - 1) / most;
  auto const equal = (rows + parts - 1) / parts, whole = (equal + 255) / 256 * 256;
  return whole <= most ? whole : equal;
}

} // namespace detail

/// The extents of the parts of a GEMM; the last part along a dimension may be smaller. A matrix is cut between its
/// stored rows, so C along m, A along k if it is transposed, else along m, B along n if it is transposed, else along k.
constexpr gemm_extents part_of_gemm(transpose a, transpose b, gemm_extents const& e, std::int64_t limit = gemm_limit) {
  bool const ta = a == transpose::yes, tb = b == transpose::yes;
  auto const longest = [](std::int64_t x, std::int64_t y) { return x > y ? x : y; };
  auto const lda = ta ? e.m : e.k, ldb = tb ? e.k : e.n, ldc = e.n;
  auto const leading_of_k = longest(ta ? lda : 0, tb ? 0 : ldb); // 0: neither A nor B is cut along k
  return {detail::rows_of_part(e.m, ta ? ldc : longest(lda, ldc), limit),
          tb ? detail::rows_of_part(e.n, ldb, limit) : e.n,
          leading_of_k == 0 ? e.k : detail::rows_of_part(e.k, leading_of_k, limit)};
}

/// The number of parts of a GEMM, each of which is one GEMM of cuBLASLt.
constexpr int gemm_parts(transpose a, transpose b, gemm_extents const& e, std::int64_t limit = gemm_limit) {
  auto const part = part_of_gemm(a, b, e, limit);
  auto const count = [](std::int64_t all, std::int64_t each) { return each <= 0 ? 0 : (all + each - 1) / each; };
  return static_cast<int>(count(e.m, part.m) * count(e.n, part.n) * count(e.k, part.k));
}

/// The alignment of an address that cuBLASLt is told: 256, 16, 8, 4, 2 or 1 bytes. Below 16 its fast kernels are not
/// possible; there are few classes because a heuristic is asked once for each.
constexpr int alignment_class(std::uintptr_t address) {
  int const classes[] = {256, 16, 8, 4, 2};
  for (int const bytes : classes)
    if (address % static_cast<unsigned>(bytes) == 0) return bytes;
  return 1;
}

} // namespace constrain
