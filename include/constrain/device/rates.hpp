#pragma once

#include "constrain/device/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The speed of a device, for compile-time estimates of the duration of a step (`estimated_seconds`).
struct device_rates {
  double gemm_64 = 0;    // FLOP/s of GEMMs in fp64; a multiply-add is two operations
  double gemm_32 = 0;    // FLOP/s of GEMMs in fp32
  double gemm_tf32 = 0;  // FLOP/s of fp32 GEMMs with operands rounded to TF32
  double gemm_bf16 = 0;  // FLOP/s of GEMMs in bf16
  double gemm_fp16 = 0;  // FLOP/s of GEMMs in fp16
  double operations = 0; // FLOP/s of all other ops
  double bytes = 0;      // bytes per second between memory and processor
  double launch = 0;     // seconds of overhead per call; 0: none
  double attention = 0;  // FLOP/s of flash attention in bf16 and fp16; 0: `operations` applies
};

/// The rates of a kernel tag's device. Specialize this variable template for another CUDA architecture or for your own
/// tag, before the first use:
///
///     template <> inline constexpr ct::device_rates ct::rates_of<ct::cuda<ct::sm<120>>>{.gemm_32 = 60e12, ...};
///
/// Known rates must be from 1 to 1e30, and `launch` from 0 to 1e30. A rate of 0, except `launch` and `attention`, means
/// unknown: `cheapest` and `advise` refuse a strategy that needs the rate. Without a specialization, all rates of your
/// own tag are 0.
template <class target> inline constexpr device_rates rates_of{};

/// The rates of two cores of an AMD EPYC (Zen 5), fitted to measured steps of a small GPT (bench/strategies.cpp). The
/// processor has dot-product instructions for bf16, but not for fp16. A launch is the start and the end of a parallel
/// loop.
template <>
inline constexpr device_rates rates_of<cpu>{.gemm_64 = 340e9,
                                            .gemm_32 = 675e9,
                                            .gemm_tf32 = 675e9,
                                            .gemm_bf16 = 1150e9,
                                            .gemm_fp16 = 450e9,
                                            .operations = 87e9,
                                            .bytes = 36e9,
                                            .launch = 19e-6};

/// The rates of an H100 SXM, for every compute capability without a specialization. They assume half of the dense GEMM
/// peaks and three quarters of the memory bandwidth in NVIDIA's data sheet. `operations`, `attention` and `launch` are
/// estimates.
template <int number>
inline constexpr device_rates rates_of<cuda<sm<number>>>{.gemm_64 = 33e12,
                                                         .gemm_32 = 33e12,
                                                         .gemm_tf32 = 247e12,
                                                         .gemm_bf16 = 494e12,
                                                         .gemm_fp16 = 494e12,
                                                         .operations = 16e12,
                                                         .bytes = 2.5e12,
                                                         .launch = 3e-6,
                                                         .attention = 150e12};

/// The rates of an H200. An H100, which has the same compute capability, gets them too. The rates of 16-bit GEMMs,
/// attention and memory were measured in full steps of GPT-2 124M and 774M (bench/results/cuda.*): 661 to 697 TFLOP/s
/// in GEMMs, 180 to 196 TFLOP/s in attention, and 3.2 to 3.5 TB/s in all other ops. `launch` is an estimate for a CUDA
/// graph. The other rates are the same as for the H100.
template <>
inline constexpr device_rates rates_of<cuda<sm<90>>>{.gemm_64 = 33e12,
                                                     .gemm_32 = 33e12,
                                                     .gemm_tf32 = 247e12,
                                                     .gemm_bf16 = 680e12,
                                                     .gemm_fp16 = 680e12,
                                                     .operations = 16e12,
                                                     .bytes = 3.4e12,
                                                     .launch = 1e-6,
                                                     .attention = 190e12};

} // namespace constrain
