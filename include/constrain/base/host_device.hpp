#pragma once

#if defined(__CUDACC__) && !defined(CONSTRAIN_WITH_CUDA)
/// Defined in CUDA compilation. A program that compiles the CUDA headers without nvcc, with a stand-in for the CUDA
/// Toolkit, must define this macro itself.
#define CONSTRAIN_WITH_CUDA
#endif

/// In CUDA compilation, CT_UNROLL unrolls the loop that follows, so that arrays indexed by the loop variable can be in
/// registers. CT_KEEP_LOOP prevents unrolling, to save registers.
#if defined(__CUDACC__)
#define CT_UNROLL _Pragma("unroll")
#define CT_KEEP_LOOP _Pragma("unroll 1")
#else
#define CT_UNROLL
#define CT_KEEP_LOOP
#endif

/// Marks a function that both CPU code and CUDA kernels can call.
#if defined(__CUDACC__)
#define CT_HOST_DEVICE __host__ __device__
#else
#define CT_HOST_DEVICE
#endif
