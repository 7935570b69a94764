#pragma once

#include "constrain/base/error.hpp"
#include "constrain/device/cpu/gemm_builtin.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#if defined(CONSTRAIN_WITH_ONEDNN)
#include "constrain/device/cpu/gemm_onednn.hpp"
#elif defined(CONSTRAIN_WITH_CBLAS)
#include <cblas.h>
#endif

namespace constrain::inline CONSTRAIN_VARIANT {

/// The name of the provider of fp32 GEMMs: "oneDNN", "CBLAS" or "built-in". Some fp32 GEMMs are built-in in any case:
/// those with k <= 0 or alpha = 0, those for which `prefers_builtin_gemm` is true, with oneDNN also those whose A is
/// not transposed and for which `prefers_builtin_gemm_to_onednn` is true, and with a CBLAS also those with sizes or
/// leading dimensions above the limit of `int`. With oneDNN, bf16 GEMMs with k > 0, alpha = 1 and a bf16 or float
/// result also use oneDNN, unless `multiplies_pairs` is true or `onednn_multiplies_bf16` is false. All other GEMMs are
/// built-in.
constexpr char const* gemm_provider() noexcept {
#if defined(CONSTRAIN_WITH_ONEDNN)
  return "oneDNN";
#elif defined(CONSTRAIN_WITH_CBLAS)
  return "CBLAS";
#else
  return "built-in";
#endif
}

namespace detail {

/// Throws `error` if the leading dimension of matrix `name` is smaller than `columns`, the length of a stored row.
inline void check_leading_dimension(char const* name, std::int64_t leading, std::int64_t columns) {
  if (leading < columns)
    throw error({"gemm: the leading dimension of ", name, " is ", leading, ", but its rows have ",
                 counted(columns, "element"), "; pass a leading dimension of at least ", columns});
}

} // namespace detail

/// C = alpha op(A) op(B) + beta C, row-major: op(A) [m, k], op(B) [k, n], C [m, n]; op transposes its matrix if the
/// flag is `transpose::yes`. lda, ldb, ldc: leading dimensions, the numbers of elements from the start of one stored
/// row to the start of the next. The types are fp16, bf16 and float, which may be mixed, or all double. C must not
/// overlap A or B, and is not read if beta is 0. Sums are accumulated in double if all types are double, else in float.
/// Does nothing if C is empty; if k is not positive or alpha is 0, C = beta C. Throws `error` if a leading dimension is
/// smaller than the length of a stored row, or if the provider fails.
template <class a_type, class b_type, class c_type>
void gemm(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
          std::type_identity_t<arithmetic<c_type>> alpha, a_type const* a, std::int64_t lda, b_type const* b,
          std::int64_t ldb, std::type_identity_t<arithmetic<c_type>> beta, c_type* c, std::int64_t ldc) {
  [[maybe_unused]] constexpr bool all_float =
      std::is_same_v<a_type, float> && std::is_same_v<b_type, float> && std::is_same_v<c_type, float>;
  if (m <= 0 || n <= 0) return;
  k = std::max<std::int64_t>(k, 0);
  bool const ta = a_transposed == transpose::yes, tb = b_transposed == transpose::yes;
  detail::check_leading_dimension("A", lda, ta ? m : k);
  detail::check_leading_dimension("B", ldb, tb ? k : n);
  detail::check_leading_dimension("C", ldc, n);
  // If alpha is 0, oneDNN 2.6 and OpenBLAS still read A and B, and oneDNN also reads C, even if beta is 0.
  [[maybe_unused]] bool const may_use_provider = k > 0 && alpha != 0 && !detail::prefers_builtin_gemm(m, n, k);
#if defined(CONSTRAIN_WITH_ONEDNN)
  if constexpr (all_float) {
    if (may_use_provider && alpha == 1 && !ta && tb && detail::onednn_matmul_is_faster(m, n, k)) {
      detail::onednn_matmul(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
      return;
    }
    // With a transposed A and k up to 256, dnnl_sgemm was mostly faster than the built-in GEMM on two Zen 3 cores.
    if (may_use_provider && (ta || !detail::prefers_builtin_gemm_to_onednn(m, n, k, ldb))) {
      auto const status = dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      if (status == dnnl_success) return;
      throw error({"gemm: oneDNN refused a GEMM of [", m, ", ", k, "] and [", k, ", ", n, "] with status ",
                   static_cast<int>(status), "; build without CONSTRAIN_WITH_ONEDNN for another provider"});
    }
  } else if constexpr (!detail::multiplies_pairs && std::is_same_v<a_type, bfloat16> &&
                       std::is_same_v<b_type, bfloat16> &&
                       (std::is_same_v<c_type, bfloat16> || std::is_same_v<c_type, float>)) {
    if (k > 0 && alpha == 1 && detail::onednn_multiplies_bf16()) {
      detail::onednn_matmul(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
      return;
    }
  }
#elif defined(CONSTRAIN_WITH_CBLAS)
  if constexpr (all_float) {
    auto const fits = std::max({m, n, k, lda, ldb, ldc}) <= std::numeric_limits<int>::max();
    if (may_use_provider && fits) {
      cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, static_cast<int>(m),
                  static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb),
                  beta, c, static_cast<int>(ldc));
      return;
    }
  }
#endif
  gemm_builtin(a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

} // namespace constrain
