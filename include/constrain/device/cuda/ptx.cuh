#pragma once

#include "constrain/base/bfloat16.hpp"
#include "constrain/base/float16.hpp"
#include "constrain/device/cuda/ptx_twins.cuh"

#include <concepts>
#include <cstdint>

#include <cuda_pipeline_primitives.h>

/// Instructions for tensor cores and asynchronous copies; they need compute capability 8.0 or higher. Outside CUDA
/// compilation, equivalent C++ functions (ptx_twins.cuh) replace the tensor-core instructions.
namespace constrain::inline CONSTRAIN_VARIANT::ptx {

/// An address in shared memory, as an integer. On CUDA devices it has 32 bits, so it takes half as many registers as a
/// pointer.
#if defined(__CUDACC__)
using shared_address = std::uint32_t;
#else
using shared_address = std::uintptr_t;
#endif

/// The address of an object in shared memory.
__device__ inline shared_address address_of(void const* shared) {
#if defined(__CUDACC__)
  return static_cast<shared_address>(__cvta_generic_to_shared(shared));
#else
  return reinterpret_cast<shared_address>(shared);
#endif
}

/// Loads four 8x8 matrices of 16-bit elements from shared memory into registers (ldmatrix). `row`: lane i passes the
/// address of row i % 8 of matrix i / 8; the address must be a multiple of 16. All lanes of a warp must call this
/// function together. ptx_twins.cuh describes which elements each lane gets.
__device__ inline void load_matrices(std::uint32_t (&to)[4], shared_address row) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
#else
  twin::load_matrices(to, reinterpret_cast<void const*>(row));
#endif
}
__device__ inline void load_matrices(std::uint32_t (&to)[4], void const* row) { load_matrices(to, address_of(row)); }

/// Like `load_matrices`, but loads the transposed matrices.
__device__ inline void load_transposed_matrices(std::uint32_t (&to)[4], shared_address row) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
#else
  twin::load_transposed_matrices(to, reinterpret_cast<void const*>(row));
#endif
}
__device__ inline void load_transposed_matrices(std::uint32_t (&to)[4], void const* row) {
  load_transposed_matrices(to, address_of(row));
}

/// D = C + A B on tensor cores (mma.sync.m16n8k16): A [16, 16] and B [16, 8] of type `real`, C and D [16, 8] in fp32; C
/// may be D. All lanes of a warp must call this function together. ptx_twins.cuh describes how the elements are
/// distributed over the lanes. The hardware chooses the order of the additions.
template <class real>
requires std::same_as<real, bfloat16> || std::same_as<real, float16> __device__ void multiply_add(
    float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2], float const (&c)[4]) {
#if defined(__CUDACC__)
  if constexpr (std::same_as<real, bfloat16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
                   "f"(c[3]));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
                   "f"(c[3]));
#else
  for (int i = 0; i < 4; ++i) d[i] = c[i];
  twin::multiply_add<real>(d, a, b);
#endif
}
/// D += A B, as above.
template <class real>
__device__ void multiply_add(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2]) {
  multiply_add<real>(d, a, b, d);
}

/// Rounds two floats to `real`, and puts `low` into the lower and `high` into the upper half of a register (cvt).
template <class real>
  requires std::same_as<real, bfloat16> || std::same_as<real, float16> __device__ std::uint32_t pair_of(float low,
                                                                                                        float high) {
#if defined(__CUDACC__)
    std::uint32_t pair = 0;
    if constexpr (std::same_as<real, bfloat16>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return twin::pair_of<real>(low, high);
#endif
  }

/// Sets `low` and `high` to the elements in the lower and the upper half of a register. Converting a bfloat16 takes one
/// instruction.
template <class real>
requires std::same_as<real, bfloat16> || std::same_as<real, float16> __device__ void unpair(std::uint32_t pair,
                                                                                            float& low, float& high) {
  if constexpr (std::same_as<real, bfloat16>) {
    low = __builtin_bit_cast(float, pair << 16);
    high = __builtin_bit_cast(float, pair & 0xFFFF0000u);
  } else {
    real first, second;
    first.bits = static_cast<std::uint16_t>(pair), second.bits = static_cast<std::uint16_t>(pair >> 16);
    low = first, high = second;
  }
}

/// Begins to copy 16 bytes from global to shared memory (cp.async). Both addresses must be multiples of 16. Only the
/// first `valid` bytes, 0 to 16, are read; the other bytes of the copy become 0. This thread may read the copied bytes
/// after `commit_copies` and a `wait_for_copies` that covers their group; other threads may read them only after a
/// barrier that follows this wait.
__device__ inline void copy_async(void* shared, void const* global, int valid = 16) {
#if defined(__CUDACC__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address_of(shared)), "l"(global), "r"(valid)
               : "memory");
#else
  __pipeline_memcpy_async(shared, global, 16, static_cast<std::size_t>(16 - valid));
#endif
}
/// Begins to copy 4 bytes from global to shared memory, like `copy_async`. If `valid` is false, reads nothing and sets
/// the 4 bytes to 0. Both addresses must be multiples of 4.
__device__ inline void copy_word_async(void* shared, void const* global, bool valid) {
#if defined(__CUDACC__)
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(address_of(shared)), "l"(global), "r"(valid ? 4 : 0)
               : "memory");
#else
  __pipeline_memcpy_async(shared, global, 4, valid ? 0 : 4);
#endif
}
/// Commits this thread's copies since the last call as one group (cp.async.commit_group).
__device__ inline void commit_copies() { __pipeline_commit(); }
/// Waits until all of this thread's groups of copies are complete, except the last `pending` groups.
template <int pending> __device__ void wait_for_copies() { __pipeline_wait_prior(pending); }

} // namespace constrain::ptx
