#pragma once

#include "constrain/device/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// How fast a device works, for estimates of a step's time at compile time (`estimated_seconds`). Only ratios matter
/// for the question which of two strategies is faster.
struct device_rates {
  double gemm_64 = 0;    // operations per second of GEMMs with factors in fp64: a multiply-add counts 2
  double gemm_32 = 0;    // the same in fp32
  double gemm_tf32 = 0;  // in fp32, rounded to TF32
  double gemm_16 = 0;    // in bf16 or fp16
  double operations = 0; // per second, of everything but GEMMs
  double bytes = 0;      // per second, between memory and processor
  double launch = 0;     // seconds from one launch to the next
};

/// The rates of a kernel tag. Specialize it for another device, before the first use:
///
///     template <> inline constexpr ct::device_rates ct::rates_of<ct::cuda<ct::sm<120>>> = {...};
template <class target> inline constexpr device_rates rates_of{};

/// Of two cores of a server's processor with AVX2, as a rough measure: GEMMs in 16 bits convert their factors.
template <>
inline constexpr device_rates rates_of<cpu>{.gemm_64 = 60e9,
                                            .gemm_32 = 120e9,
                                            .gemm_tf32 = 120e9,
                                            .gemm_16 = 120e9,
                                            .operations = 20e9,
                                            .bytes = 20e9,
                                            .launch = 1e-6};

/// Of an H100 SXM: half of the dense peaks of NVIDIA's data sheet.
template <int number>
inline constexpr device_rates rates_of<cuda<sm<number>>>{.gemm_64 = 33e12,
                                                         .gemm_32 = 33e12,
                                                         .gemm_tf32 = 247e12,
                                                         .gemm_16 = 494e12,
                                                         .operations = 16e12,
                                                         .bytes = 2.5e12,
                                                         .launch = 3e-6};

} // namespace constrain
