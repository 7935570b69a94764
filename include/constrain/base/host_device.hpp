#pragma once

#if defined(__CUDACC__) && !defined(CONSTRAIN_WITH_CUDA)
/// Defined if this translation unit is compiled as CUDA code.
#define CONSTRAIN_WITH_CUDA
#endif

/// Unrolls the loop that follows, in CUDA compilation, so that arrays whose indices depend on the loop are in registers.
#if defined(__CUDACC__)
#define CT_UNROLL _Pragma("unroll")
#else
#define CT_UNROLL
#endif

/// Marks a function that both CPU code and CUDA kernels can call.
#if defined(__CUDACC__)
#define CT_HOST_DEVICE __host__ __device__
#else
#define CT_HOST_DEVICE
#endif
