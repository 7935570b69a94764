#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/transpose.hpp"

#include <cstdint>

/// Functions that split GEMMs into parts for cuBLASLt. They are plain C++, so that they can be tested on the host.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Extents of a GEMM, or of its parts. Every matrix of a part spans fewer than 2^31 elements, unless a single row has
/// that many. For larger matrices, the heuristic of cuBLASLt 13.6 returns algorithms that fail (github.com/NVIDIA/raft,
/// issue 3097).
struct gemm_extents {
  std::int64_t m = 0; // rows of op(A) and C
  std::int64_t n = 0; // columns of op(B) and C
  std::int64_t k = 0; // columns of op(A), rows of op(B)
  // elements from one stored row to the next; 0: the rows are contiguous
  std::int64_t lda = 0, ldb = 0, ldc = 0;

  friend constexpr bool operator==(gemm_extents const&, gemm_extents const&) = default;
};

/// The extents with the distances of contiguous rows in place of zeros.
constexpr gemm_extents with_distances(transpose a, transpose b, gemm_extents e) {
  if (e.lda == 0) e.lda = a == transpose::yes ? e.m : e.k;
  if (e.ldb == 0) e.ldb = b == transpose::yes ? e.k : e.n;
  if (e.ldc == 0) e.ldc = e.n;
  return e;
}

/// Every matrix of a part spans fewer elements than this, from its first element to its last, including the gaps
/// between rows. A matrix with a single stored row is an exception.
inline constexpr std::int64_t gemm_limit = std::int64_t{1} << 31;

namespace detail {

/// Splits `rows` rows of `leading` elements into nearly equal parts. Each part has at least one row, and has fewer than
/// `limit` elements if a row has fewer. With several parts, rounds the rows per part up to a multiple of 256 if each
/// part still has fewer than `limit` elements, so that all parts have the alignment of the first. Returns the number of
/// rows of every part except the last.
constexpr std::int64_t rows_of_part(std::int64_t rows, std::int64_t leading, std::int64_t limit) {
  auto const most = leading < limit ? (limit - 1) / leading : 1;
  if (rows <= most) return rows;
  auto const parts = (rows + most - 1) / most;
  auto const equal = (rows + parts - 1) / parts, whole = (equal + 255) / 256 * 256;
  return whole <= most ? whole : equal;
}

} // namespace detail

/// The extents of the parts of a GEMM; the last part along a dimension may be smaller. Cuts lie between stored rows. C
/// is cut along m. A is cut along k if A is transposed, otherwise along m. B is cut along n if B is transposed,
/// otherwise along k.
constexpr gemm_extents part_of_gemm(transpose a, transpose b, gemm_extents const& e, std::int64_t limit = gemm_limit) {
  bool const ta = a == transpose::yes, tb = b == transpose::yes;
  auto const longest = [](std::int64_t x, std::int64_t y) { return x > y ? x : y; };
  auto const [m, n, k, lda, ldb, ldc] = with_distances(a, b, e);
  auto const leading_of_k = longest(ta ? lda : 0, tb ? 0 : ldb); // 0: neither A nor B is cut along k
  return {detail::rows_of_part(m, ta ? ldc : longest(lda, ldc), limit),
          tb ? detail::rows_of_part(n, ldb, limit) : n,
          leading_of_k == 0 ? k : detail::rows_of_part(k, leading_of_k, limit),
          lda,
          ldb,
          ldc};
}

/// The number of parts of a GEMM, each of which is one GEMM of cuBLASLt.
constexpr int gemm_parts(transpose a, transpose b, gemm_extents const& e, std::int64_t limit = gemm_limit) {
  auto const part = part_of_gemm(a, b, e, limit);
  auto const count = [](std::int64_t all, std::int64_t each) { return each <= 0 ? 0 : (all + each - 1) / each; };
  return static_cast<int>(count(e.m, part.m) * count(e.n, part.n) * count(e.k, part.k));
}

/// Whether cuBLASLt can add a bias [n] of elements of `element` bytes: whether it begins at a multiple of 16 bytes in
/// every part, and in every matrix of a stack of biases.
constexpr bool allows_bias(transpose a, transpose b, gemm_extents const& e, std::int64_t element,
                           std::int64_t limit = gemm_limit) {
  return e.n * element % 16 == 0 && part_of_gemm(a, b, e, limit).n * element % 16 == 0;
}

/// The alignment that is passed to cuBLASLt for an address: 256, 16, 8, 4, 2 or 1 bytes. With less than 16 bytes,
/// cuBLASLt cannot use its fast kernels. There are few classes, because the heuristic runs again for each new
/// combination of shape and classes.
constexpr int alignment_class(std::uintptr_t address) {
  int const classes[] = {256, 16, 8, 4, 2};
  for (int const bytes : classes)
    if (address % static_cast<unsigned>(bytes) == 0) return bytes;
  return 1;
}

} // namespace constrain
