#pragma once

#include "constrain/device/cuda/check.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A CUDA event: a point in the order of a stream's work. It records no time.
class cuda_event {
public:
  /// Makes an event of the current device. Throws `error` if CUDA fails.
  cuda_event() { cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "make an event"); }
  ~cuda_event() { cudaEventDestroy(event_); }
  cuda_event(cuda_event const&) = delete;
  cuda_event& operator=(cuda_event const&) = delete;
  /// The event, for calls to the CUDA runtime.
  operator cudaEvent_t() const { return event_; }

private:
  cudaEvent_t event_{};
};

} // namespace constrain
