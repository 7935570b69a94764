#pragma once

#include "constrain/device/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// How fast a device works, for estimates of a step's time at compile time (`estimated_seconds`). Only ratios matter
/// for the question which of two strategies is faster.
struct device_rates {
  double gemm_64 = 0;    // operations per second of GEMMs with factors in fp64: a multiply-add counts 2
  double gemm_32 = 0;    // the same in fp32
  double gemm_tf32 = 0;  // in fp32, rounded to TF32
  double gemm_bf16 = 0;  // in bf16
  double gemm_fp16 = 0;  // in fp16
  double operations = 0; // per second, of everything but GEMMs
  double bytes = 0;      // per second, between memory and processor
  double launch = 0;     // seconds from one launch to the next
};

/// The rates of a kernel tag. Specialize it for another CUDA architecture, before the first use:
///
///     template <> inline constexpr ct::device_rates ct::rates_of<ct::cuda<ct::sm<120>>>{.gemm_32 = 60e12, ...};
template <class target> inline constexpr device_rates rates_of{};

/// Of two cores of an AMD EPYC (Zen 5), fitted to measured steps of a small GPT (bench/strategies). It has instructions
/// for products of bf16, but not of fp16. A launch is the start and the end of a parallel loop.
template <>
inline constexpr device_rates rates_of<cpu>{.gemm_64 = 340e9,
                                            .gemm_32 = 675e9,
                                            .gemm_tf32 = 675e9,
                                            .gemm_bf16 = 1150e9,
                                            .gemm_fp16 = 450e9,
                                            .operations = 87e9,
                                            .bytes = 36e9,
                                            .launch = 19e-6};

/// Of an H100 SXM: half of the dense peaks of NVIDIA's data sheet.
template <int number>
inline constexpr device_rates rates_of<cuda<sm<number>>>{.gemm_64 = 33e12,
                                                         .gemm_32 = 33e12,
                                                         .gemm_tf32 = 247e12,
                                                         .gemm_bf16 = 494e12,
                                                         .gemm_fp16 = 494e12,
                                                         .operations = 16e12,
                                                         .bytes = 2.5e12,
                                                         .launch = 3e-6};

} // namespace constrain
