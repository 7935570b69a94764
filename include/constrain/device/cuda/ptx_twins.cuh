#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

#include <cuda_runtime.h>
#include <sm_30_intrinsics.h>

/// The instructions of ptx.cuh written with shuffles alone, by the fragment layouts of the PTX ISA (9.7.14.5.8, "Matrix
/// Fragments for mma.m16n8k16", and ldmatrix): what a host runs in place of the instruction, and what a device's
/// instruction is compared with. All 32 lanes of a warp call them together.
namespace constrain::inline CONSTRAIN_VARIANT::ptx::twin {

/// The mask of all lanes of a warp.
inline constexpr unsigned all_lanes = 0xFFFFFFFF;

/// This thread's number in its warp.
__device__ inline int lane() { return static_cast<int>(threadIdx.x % 32); }

/// Element `half` of two in a register.
template <class real> __device__ inline float element(std::uint32_t pair, int half) {
  real x;
  x.bits = static_cast<std::uint16_t>(pair >> (16 * half));
  return x;
}

/// ldmatrix .x4: `row`: lane i's is row i % 8 of matrix i / 8, 8 elements of 16 bits. to[j]: of matrix j, row lane / 4,
/// the elements 2 (lane % 4) and the next one.
__device__ inline void load_matrices(std::uint32_t (&to)[4], void const* row) {
  auto const address = reinterpret_cast<unsigned long long>(row);
  for (int j = 0; j < 4; ++j) {
    auto const from = __shfl_sync(all_lanes, address, 8 * j + lane() / 4);
    to[j] = reinterpret_cast<std::uint32_t const*>(from)[lane() % 4];
  }
}

/// ldmatrix .x4.trans: as load_matrices of the transposed matrices. to[j]: of matrix j, column lane / 4, the rows
/// 2 (lane % 4) and the next one.
__device__ inline void load_transposed_matrices(std::uint32_t (&to)[4], void const* row) {
  auto const address = reinterpret_cast<unsigned long long>(row);
  for (int j = 0; j < 4; ++j) {
    to[j] = 0;
    for (int half = 0; half < 2; ++half) {
      auto const from = __shfl_sync(all_lanes, address, 8 * j + 2 * (lane() % 4) + half);
      to[j] |= static_cast<std::uint32_t>(reinterpret_cast<std::uint16_t const*>(from)[lane() / 4]) << (16 * half);
    }
  }
}

/// mma.m16n8k16: D += A B in fp32, A [16, 16], B [16, 8], D [16, 8], of elements `real` (bfloat16, float16). With
/// g = lane / 4 and t = lane % 4: a[0] and a[2] are A's row g, a[1] and a[3] row g + 8, columns 2 t and 2 t + 1, of
/// a[2] and a[3] 8 more; b is B's column g, the same rows; d[0], d[1] are D's row g, d[2], d[3] row g + 8, columns 2 t
/// and 2 t + 1.
template <class real>
__device__ void multiply_add(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2]) {
  int const g = lane() / 4, t = lane() % 4;
  for (int pair = 0; pair < 8; ++pair) {
    int const upper = pair / 4, from = pair % 4;
    std::uint32_t const rows[] = {__shfl_sync(all_lanes, a[2 * upper], 4 * g + from),
                                  __shfl_sync(all_lanes, a[2 * upper + 1], 4 * g + from)};
    std::uint32_t const columns[] = {__shfl_sync(all_lanes, b[upper], 4 * (2 * t) + from),
                                     __shfl_sync(all_lanes, b[upper], 4 * (2 * t + 1) + from)};
    for (int i = 0; i < 4; ++i)
      for (int half = 0; half < 2; ++half)
        d[i] += element<real>(rows[i / 2], half) * element<real>(columns[i % 2], half);
  }
}

} // namespace constrain::ptx::twin
