#pragma once

/// Marks a function that kernels of every device call.
#if defined(__CUDACC__)
#define CT_HOST_DEVICE __host__ __device__
#else
#define CT_HOST_DEVICE
#endif
