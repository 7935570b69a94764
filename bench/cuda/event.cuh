#pragma once

#include "../measure.hpp"

#include <constrain/device/cuda/check.cuh>

#include <chrono>
#include <utility>
#include <vector>

namespace constrain::bench {

/// Whether a GPU runs the kernels. The stand-in of tests/cuda/on_host runs them on the host, where times mean nothing,
/// so results are marked as not measured.
#if defined(CONSTRAIN_ON_HOST)
inline constexpr bool measured = false;
#else
inline constexpr bool measured = true;
#endif

/// A point in a stream. Its time is read from the device's clock; on the stand-in, from the host's clock when the event
/// is recorded.
class event {
public:
  event() { cuda_check(cudaEventCreate(&event_), "make an event"); }
  event(event&& other) noexcept : event_(std::exchange(other.event_, nullptr)), on_host_(other.on_host_) {}
  ~event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  void record(cudaStream_t stream) {
    cuda_check(cudaEventRecord(event_, stream), "record an event");
    on_host_ = std::chrono::steady_clock::now();
  }
  /// Waits for the event.
  void wait() const { cuda_check(cudaEventSynchronize(event_), "run the kernels"); }

  /// The seconds from `begin` to `end`. Both events must have completed.
  friend double seconds_between(event const& begin, event const& end) {
#if defined(CONSTRAIN_ON_HOST)
    return std::chrono::duration<double>(end.on_host_ - begin.on_host_).count();
#else
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, begin.event_, end.event_), "read the time of an event");
    return 1e-3 * static_cast<double>(milliseconds);
#endif
  }

private:
  cudaEvent_t event_{};
  std::chrono::steady_clock::time_point on_host_;
};

#if !defined(CONSTRAIN_ON_HOST)
static __global__ void hold_kernel(long long cycles) {
  for (auto const began = clock64(); clock64() - began < cycles;) {}
}
#endif

/// Keeps the stream busy for a few milliseconds, while the host launches the next kernels. The time between events that
/// are recorded afterwards is then only the device's time, without the host's time for launches.
inline void hold([[maybe_unused]] cudaStream_t stream) {
#if !defined(CONSTRAIN_ON_HOST)
  hold_kernel<<<1, 1, 0, stream>>>(10'000'000);
  cuda_check(cudaGetLastError(), "launch a kernel");
#endif
}

/// The seconds per call of `f(i)`, which starts kernels on `stream`. A warm-up round is followed by `rounds` rounds of
/// `repeats` calls each; the result is the median of the mean of each round. i counts all calls from 0.
template <class function> double device_seconds_of(cudaStream_t stream, int rounds, int repeats, function const& f) {
  std::vector<double> seconds;
  event begin, end;
  int i = 0;
  for (int round = 0; round <= rounds; ++round) {
    hold(stream);
    begin.record(stream);
    for (int k = 0; k < repeats; ++k) f(i++);
    end.record(stream);
    end.wait();
    if (round > 0) seconds.push_back(seconds_between(begin, end) / repeats);
  }
  return median(seconds);
}

} // namespace constrain::bench
