#pragma once

#include "device_limits.cuh"

#include <vector>

namespace constrain::bench {

/// The seconds of a GEMM with each of the first `max_choices` algorithms of cuBLASLt's heuristic, in the heuristic's
/// order. The library uses the first. Empty for a GEMM that runs in parts (gemm_parts.hpp).
template <class device>
std::vector<double> seconds_of_algorithms(laboratory<device> const& here, plan_gemm const& g, sizes const& size) {
  std::vector<double> seconds;
  if (gemm_parts(g.a, g.b, g.extents()) > 1) return seconds;
  constrain::detail::cublas_descriptor<cublasLtHandle_t, cublasLtDestroy> handle;
  cublas_check(cublasLtCreate(handle.address()), "start");
  bool const ta = g.a == transpose::yes, tb = g.b == transpose::yes;
  auto const e = with_leading_dimensions(g.a, g.b, g.extents());
  auto const result = g.adds ? dtype::f32 : dtype::bf16;
  gemm_shape const shape{ta, tb, e.m, e.n, e.k, e.lda, e.ldb, e.ldc, g.adds, dtype::bf16, result};
  for (int choice = 0; choice < constrain::detail::cuda_gemm::max_choices; ++choice) {
    constrain::detail::cuda_gemm const one(handle, shape, choice);
    if (!one.exists()) break;
    auto const run = [&](bfloat16 const* left, bfloat16 const* right, std::byte* to) {
      one.run(handle, left, right, to, g.adds, nullptr, here.make_call().scratch, here.stream());
    };
    seconds.push_back(seconds_on_random_data(here, g, size, run));
  }
  return seconds;
}

} // namespace constrain::bench
