#pragma once

// Events with times, on the host: the host's clock, which says nothing of a device. Nothing is measured with them; the
// programs of bench/cuda mark every figure that comes from them.

#include "cuda_runtime.h"

#if !__has_include("stand_in/types.hpp")
#include <chrono>

struct on_host_event {
  std::chrono::steady_clock::time_point passed;
};
using cudaEvent_t = on_host_event*;

inline cudaError_t cudaEventCreate(cudaEvent_t* e) { return *e = new on_host_event, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t) {
  e->passed = std::chrono::steady_clock::now();
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->passed - begin->passed).count();
  return cudaSuccess;
}
#endif
