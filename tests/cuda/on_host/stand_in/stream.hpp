#pragma once

#include "device.hpp"
#include "handle.hpp"
#include "work.hpp"

#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace on_host {

/// A captured call: a node of a graph.
struct captured_work {
  work what;              // a pattern, without an order
  std::vector<int> after; // nodes before it
};

/// Calls that are captured instead of run: the calls on the stream that began the capture, and on all streams that
/// joined it by an event.
struct capture {
  cudaStreamCaptureMode mode;
  std::vector<captured_work> nodes;
};

} // namespace on_host

struct on_host_stream {
  static constexpr char const* name = "stream";
  int device;
  unsigned flags;
  on_host::work_ptr last; // the newest work; null: none
  std::shared_ptr<on_host::capture> recording;
  bool began_recording = false;
  std::vector<int> frontier; // the newest captured nodes

  void end() const {
    if (recording != nullptr)
      on_host::violated("cudaStreamDestroy", "the stream is capturing", "a capture ends before its stream");
  }
};
using cudaStream_t = on_host_stream*;
/// The handles of the legacy default stream and of each thread's own one. No other call of the stand-in takes them.
inline auto const cudaStreamLegacy = reinterpret_cast<cudaStream_t>(1);
inline auto const cudaStreamPerThread = reinterpret_cast<cudaStream_t>(2);

namespace on_host {

/// Whether any stream captures.
inline bool any_capture() {
  for (auto const* s : handles<on_host_stream>::living())
    if (s->recording != nullptr) return true;
  return false;
}
/// Refuses a call that no stream may capture, or that synchronizes.
inline void not_in_capture(char const* call) {
  if (any_capture()) violated(call, "it is called while a stream captures", "a capture takes only asynchronous calls");
}

/// The default stream of the current device.
inline on_host_stream& default_stream() {
  static auto* const of_device = new std::map<int, on_host_stream>;
  return of_device->try_emplace(current_device, on_host_stream{current_device, cudaStreamDefault, {}, {}, false, {}})
      .first->second;
}
/// The stream of a call; for null the default stream, which no capture takes.
inline on_host_stream& stream_of(char const* call, cudaStream_t stream) {
  if (stream != nullptr) return handles<on_host_stream>::use(call, stream);
  if (any_capture())
    violated(call, "it uses the default stream while another one captures", "a capture depends on no default stream");
  return default_stream();
}
inline on_host_stream& stream_of_current_device(char const* call, cudaStream_t stream) {
  auto& s = stream_of(call, stream);
  if (s.device != current_device)
    violated(call, text("the stream is one of device ", s.device, ", and device ", current_device, " is current"),
             "work starts on streams of the current device");
  return s;
}

/// Refuses work on streams, if it is set: NCCL allows none while it takes a call.
inline void (*refuse_work)() = nullptr;

inline void count(work const& w) {
  if (w.kernel != nullptr) ++launches[w.kernel];
  if (w.is_gemm) ++gemms;
}
/// Starts work behind `after`, or behind what the stream was given before.
inline work_ptr start(on_host_stream& s, work pattern, std::vector<work_ptr> const& after) {
  count(pattern);
  auto const w = std::make_shared<work>(std::move(pattern));
  for (auto const& before : after)
    if (before != nullptr) w->after.push_back(before);
  device_queue::add(w);
  return s.last = w;
}
/// Gives a stream work: it is captured, or starts when the device likes.
inline void submit(on_host_stream& s, work w) {
  bookkeeping const unseen;
  if (refuse_work != nullptr) refuse_work();
  if (s.recording != nullptr) {
    s.recording->nodes.push_back({std::move(w), s.frontier});
    s.frontier = {static_cast<int>(s.recording->nodes.size()) - 1};
    return;
  }
  std::vector<work_ptr> after{s.last};
  // The default stream waits for the streams that were not made with cudaStreamNonBlocking, and they for it.
  if (&s == &default_stream()) {
    for (auto const* other : handles<on_host_stream>::living())
      if (other->flags == cudaStreamDefault && other->device == s.device) after.push_back(other->last);
  } else if (s.flags == cudaStreamDefault) {
    after.push_back(default_stream().last);
  }
  start(s, std::move(w), after);
}
/// Runs what a stream was given.
inline void finish(on_host_stream const& s) {
  bookkeeping const unseen;
  device_queue::finish(s.last);
}
/// Runs everything that the devices were given.
inline void finish_all() {
  bookkeeping const unseen;
  device_queue::finish_all();
}

} // namespace on_host

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  on_host::block::current();
  if (on_host::fails("cudaStreamCreateWithFlags")) return on_host::returned(cudaErrorMemoryAllocation);
  using streams = on_host::handles<on_host_stream>;
  *s = streams::make(on_host_stream{on_host::current_device, flags, {}, {}, false, {}});
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, cudaStreamDefault); }
/// Work already in the stream still runs.
inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
  on_host::handles<on_host_stream>::destroy("cudaStreamDestroy", s);
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  auto const& s = on_host::stream_of("cudaStreamGetDevice", stream);
  if (on_host::fails("cudaStreamGetDevice")) return on_host::returned(cudaErrorInvalidValue);
  *device = s.device;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  auto& s = on_host::stream_of("cudaStreamSynchronize", stream);
  if (s.recording != nullptr) on_host::not_in_capture("cudaStreamSynchronize");
  if (on_host::fails("cudaStreamSynchronize")) return on_host::returned(cudaErrorLaunchFailure);
  on_host::finish(s);
  return cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  auto& s = on_host::stream_of("cudaStreamQuery", stream);
  if (s.recording != nullptr) on_host::not_in_capture("cudaStreamQuery");
  if (on_host::fails("cudaStreamQuery")) return on_host::returned(cudaErrorLaunchFailure);
  if (on_host::draw(2) == 0) on_host::device_queue::try_to_finish(s.last); // some asking is in vain
  return s.last == nullptr || s.last->done ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaDeviceSynchronize() {
  on_host::not_in_capture("cudaDeviceSynchronize");
  if (on_host::fails("cudaDeviceSynchronize")) return on_host::returned(cudaErrorLaunchFailure);
  on_host::finish_all();
  return cudaSuccess;
}
