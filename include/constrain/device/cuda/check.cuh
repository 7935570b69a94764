#pragma once

#include "constrain/base/error.hpp"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Throws `error` if the CUDA runtime failed. The message names the current device, if known. `what`: the action that
/// failed, such as "copy the step parameters".
inline void cuda_check(cudaError_t status, char const* what) {
  if (status == cudaSuccess) return;
  int device = -1; // unknown
  if (cudaGetDevice(&device) != cudaSuccess) device = -1;
  auto const location = device < 0 ? std::string() : concat({" (current device: ", device, ")"});
  throw error({"CUDA could not ", what, location, ": ", cudaGetErrorString(status),
               "; check the device with nvidia-smi, and if a kernel has failed, find it with compute-sanitizer"});
}

/// Throws `error` if cuBLASLt failed. `what`: the action that failed, such as "multiply two matrices".
inline void cublas_check(cublasStatus_t status, std::string const& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw error({"cuBLASLt could not ", what, ": ", cublasLtGetStatusString(status),
               "; check that the device has free memory (nvidia-smi), and that CUDA ", CUDART_VERSION / 1000,
               " supports the device"});
}

} // namespace constrain
