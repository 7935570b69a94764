#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/transpose.hpp"

#include <cstdint>

/// Functions that split GEMMs into parts for cuBLASLt. They are plain C++, so that they can be tested on the host.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Extents of a GEMM, or of its parts. GEMMs are split for two reasons. First, every matrix of a part must span fewer
/// than 2^31 elements, unless a single row has that many: from 2^31 elements on, the heuristic of cuBLASLt 13.6 can
/// return an algorithm that fails (github.com/NVIDIA/raft, issue 3097). Second, if rows are padded and their length
/// without the padding is not a multiple of 8 elements, the elements after the last multiple of 8 are a separate part
/// of a large GEMM (`without_remainder_of_rows`).
struct gemm_extents {
  std::int64_t m = 0; // rows of op(A) and C
  std::int64_t n = 0; // columns of op(B) and C
  std::int64_t k = 0; // columns of op(A), rows of op(B)
  // elements from one stored row to the next; 0: the rows are contiguous
  std::int64_t lda = 0, ldb = 0, ldc = 0;

  friend constexpr bool operator==(gemm_extents const&, gemm_extents const&) = default;
};

/// The extents, with the leading dimensions of contiguous rows in place of zeros.
constexpr gemm_extents with_leading_dimensions(transpose a, transpose b, gemm_extents e) {
  if (e.lda == 0) e.lda = a == transpose::yes ? e.m : e.k;
  if (e.ldb == 0) e.ldb = b == transpose::yes ? e.k : e.n;
  if (e.ldc == 0) e.ldc = e.n;
  return e;
}

/// When a GEMM is split. Only tests choose other limits.
struct gemm_limits {
  /// Every matrix of a part spans fewer elements than this, from its first element to its last, including the gaps
  /// between rows. A matrix with a single stored row is an exception.
  std::int64_t elements = std::int64_t{1} << 31;
  /// In GEMMs of at least this many multiplications, the remainder of padded rows is a separate part. In smaller GEMMs,
  /// the separate part would take more time than it saves.
  std::int64_t multiplications = std::int64_t{1} << 29;
};

namespace detail {

/// Splits `rows` rows of `leading` elements into nearly equal parts. Each part has at least one row, and has fewer than
/// `limit` elements if a row has fewer. With several parts, rounds the rows per part up to a multiple of 256 if each
/// part still has fewer than `limit` elements, so that all parts have the alignment of the first. Returns the number of
/// rows of a part; the last part may have fewer.
constexpr std::int64_t rows_of_part(std::int64_t rows, std::int64_t leading, std::int64_t limit) {
  auto const max_rows = leading < limit ? (limit - 1) / leading : 1;
  if (rows <= max_rows) return rows;
  auto const parts = (rows + max_rows - 1) / max_rows;
  auto const equal_rows = (rows + parts - 1) / parts, aligned_rows = (equal_rows + 255) / 256 * 256;
  return aligned_rows <= max_rows ? aligned_rows : equal_rows;
}

} // namespace detail

namespace detail {

/// If a leading dimension is a multiple of this number of elements, of at least 2 bytes each, all rows have the 16-byte
/// alignment of the first row.
inline constexpr std::int64_t gemm_row_unit = 8;

/// The extent of a part along a dimension that indexes the columns of at most two stored matrices. `leading`,
/// `other_leading`: the leading dimensions of these matrices; 0: no such matrix. If there is at least one, and all
/// leading dimensions are multiples of 8, an extent above 8 is rounded down to a multiple of 8; other extents do not
/// change.
constexpr std::int64_t without_remainder(std::int64_t extent, std::int64_t leading, std::int64_t other_leading) {
  bool const padded = leading % gemm_row_unit == 0 && other_leading % gemm_row_unit == 0;
  bool const has_matrix = leading != 0 || other_leading != 0;
  return has_matrix && padded && extent > gemm_row_unit ? extent - extent % gemm_row_unit : extent;
}

/// The extents of a part without the remainders of padded rows; unchanged for a GEMM of fewer than
/// `min_multiplications` multiplications. cuBLASLt reads a matrix 16 bytes at a time only if the length of its rows,
/// without padding, is a multiple of 16 bytes. On an H200, with 50257 classes in rows padded to 50304 elements, the
/// GEMMs of a head took 8 times (logits, gradient of the inputs) and 1.5 times (gradient of the weight) as long as with
/// 50256 classes. The separate GEMMs for the last class took 5 to 9 us.
constexpr gemm_extents without_remainder_of_rows(bool a_transposed, bool b_transposed, gemm_extents e,
                                                 std::int64_t min_multiplications) {
  auto const multiplications = static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k);
  if (multiplications < static_cast<double>(min_multiplications)) return e;
  e.m = without_remainder(e.m, a_transposed ? e.lda : 0, 0);
  e.n = without_remainder(e.n, b_transposed ? 0 : e.ldb, e.ldc);
  e.k = without_remainder(e.k, a_transposed ? 0 : e.lda, b_transposed ? e.ldb : 0);
  return e;
}

} // namespace detail

/// The extents of the parts of a GEMM; the last part along a dimension may be smaller. To stay below `limits.elements`,
/// matrices are cut between stored rows: C along m; A along k if A is transposed, otherwise along m; B along n if B is
/// transposed, otherwise along k. A dimension that this limit does not cut is cut only before a remainder that
/// `without_remainder_of_rows` removes.
constexpr gemm_extents part_of_gemm(transpose a, transpose b, gemm_extents const& e, gemm_limits const& limits = {}) {
  bool const ta = a == transpose::yes, tb = b == transpose::yes;
  auto const larger = [](std::int64_t x, std::int64_t y) { return x > y ? x : y; };
  auto const extents = with_leading_dimensions(a, b, e);
  auto const [m, n, k, lda, ldb, ldc] = extents;
  auto const trimmed = detail::without_remainder_of_rows(ta, tb, extents, limits.multiplications);
  auto const part = [&](std::int64_t extent, std::int64_t leading, std::int64_t trimmed_extent) {
    auto const part_extent = leading == 0 ? extent : detail::rows_of_part(extent, leading, limits.elements);
    return part_extent < extent ? part_extent : trimmed_extent;
  };
  return {part(m, ta ? ldc : larger(lda, ldc), trimmed.m),
          part(n, tb ? ldb : 0, trimmed.n),
          part(k, larger(ta ? lda : 0, tb ? 0 : ldb), trimmed.k),
          lda,
          ldb,
          ldc};
}

/// The number of parts of a GEMM, each of which is one GEMM of cuBLASLt; 0 if m, n or k is 0.
constexpr int gemm_parts(transpose a, transpose b, gemm_extents const& e, gemm_limits const& limits = {}) {
  auto const part = part_of_gemm(a, b, e, limits);
  auto const count = [](std::int64_t extent, std::int64_t part_extent) {
    return part_extent <= 0 ? 0 : (extent + part_extent - 1) / part_extent;
  };
  return static_cast<int>(count(e.m, part.m) * count(e.n, part.n) * count(e.k, part.k));
}

/// Whether cuBLASLt can add a bias [n] with elements of `element` bytes: whether the bias of every part, and every bias
/// of a stack, begins at a multiple of 16 bytes if the first bias does.
constexpr bool allows_bias(transpose a, transpose b, gemm_extents const& e, std::int64_t element,
                           gemm_limits const& limits = {}) {
  return e.n * element % 16 == 0 && part_of_gemm(a, b, e, limits).n * element % 16 == 0;
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
