#pragma once

#if defined(__CUDACC__) && !defined(CONSTRAIN_WITH_CUDA)
/// The compiler knows CUDA.
#define CONSTRAIN_WITH_CUDA
#endif

/// Marks a function that kernels of every device call.
#if defined(__CUDACC__)
#define CT_HOST_DEVICE __host__ __device__
#else
#define CT_HOST_DEVICE
#endif
