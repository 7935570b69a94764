#pragma once

#include "constrain/device/cuda/context.cuh"
#include "constrain/device/transpose.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// y = op(A) op(B), or y += op(A) op(B) with `adds`, row-major, by cuBLASLt: op(A) [m, k], op(B) [k, n], y [m, n], all
/// contiguous; op transposes its matrix if the flag is `transpose::yes`. Sums are accumulated in float for 16-bit
/// elements, else in the elements' type. The call must have scratch memory of at least `gemm_workspace` bytes. Throws
/// `error` if cuBLASLt fails.
template <class input, class output>
void gemm(call const& c, transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
          input const* a, input const* b, bool adds, output* y) {
  if (m <= 0 || n <= 0) return;
  bool const ta = a_transposed == transpose::yes, tb = b_transposed == transpose::yes;
  gemm_shape const s{ta, tb, m, n, k, ta ? m : k, tb ? k : n, n, adds, dtype_of<input>, dtype_of<output>};
  auto& context = *c.parameters.context;
  context.gemms().run(s, a, b, y, c.scratch, context.stream());
}

} // namespace constrain
