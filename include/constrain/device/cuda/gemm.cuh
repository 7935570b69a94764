#pragma once

#include "constrain/device/cuda/context.cuh"
#include "constrain/device/cuda/gemm_parts.hpp"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// y = op(A) op(B), or y += op(A) op(B) if `adds`, by cuBLASLt; does nothing if y is empty. The matrices are row-major:
/// op(A) [m, k], op(B) [k, n], y [m, n]. op transposes its matrix if the matrix's flag is `transpose::yes`. `e`: the
/// extents; k must not be 0. `bias`: [n], added to every row; null: none. A bias must be allowed (`allows_bias`) and
/// begin at a multiple of 16 bytes. fp32 operands are rounded to TF32 if `uses_tf32()` of the context is true, unless
/// `keeps_fp32`. Sums are accumulated in float for 16-bit elements, otherwise in the elements' type. Starts
/// `gemm_parts(...)` GEMMs; only tests pass `limits`. Parts along k accumulate in y, from the last part, which may be
/// shorter, to the first. A 16-bit y is rounded after every part; with two parts, the sums over the shorter one are
/// thus rounded first. The call must have at least `gemm_workspace` bytes of scratch memory, at a multiple of 256.
/// Throws `error` if cuBLASLt fails.
template <class input, class output>
void gemm(call const& c, transpose a_transposed, transpose b_transposed, gemm_extents const& e, input const* a,
          input const* b, bool adds, output* y, std::type_identity_t<output> const* bias = nullptr,
          gemm_limits const& limits = {}, bool keeps_fp32 = false) {
  if (e.m <= 0 || e.n <= 0) return;
  bool const ta = a_transposed == transpose::yes, tb = b_transposed == transpose::yes;
  auto const alignment_of = [](auto const* p) { return alignment_class(reinterpret_cast<std::uintptr_t>(p)); };
  auto& context = *c.parameters.context;
  auto const part = part_of_gemm(a_transposed, b_transposed, e, limits);
  gemm_shape s{ta, tb, 0, 0, 0, part.lda, part.ldb, part.ldc, adds, dtype_of<input>, dtype_of<output>};
  s.tf32 = context.uses_tf32() && !keeps_fp32;
  auto const last_k =
      e.k > 0 ? (e.k - 1) / part.k * part.k : -1; // the index along k where the last part begins; -1 if k is 0
  for (std::int64_t m = 0; m < e.m; m += part.m)
    for (std::int64_t n = 0; n < e.n; n += part.n)
      for (std::int64_t k = last_k; k >= 0; k -= part.k) {
        s.m = std::min(part.m, e.m - m), s.n = std::min(part.n, e.n - n), s.k = std::min(part.k, e.k - k);
        s.adds = adds || k < last_k;
        input const* const a_part = a + (ta ? k * s.lda + m : m * s.lda + k);
        input const* const b_part = b + (tb ? n * s.ldb + k : k * s.ldb + n);
        output* const y_part = y + m * s.ldc + n;
        output const* const bias_part = bias == nullptr || k < last_k ? nullptr : bias + n;
        s.bias_alignment = bias_part == nullptr ? 0 : alignment_of(bias_part);
        s.a_alignment = alignment_of(a_part), s.b_alignment = alignment_of(b_part),
        s.c_alignment = alignment_of(y_part);
        context.gemms().run(s, a_part, b_part, y_part, bias_part, c.scratch, context.stream());
      }
}

} // namespace constrain
