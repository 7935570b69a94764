#pragma once

#include "stream.hpp"

#include <memory>
#include <vector>

struct on_host_event {
  static constexpr char const* name = "event";
  int device;
  unsigned flags;
  bool recorded = false;
  on_host::work_ptr at;                          // the newest work of the stream when it was recorded
  std::shared_ptr<on_host::capture> recorded_in; // null: not in a capture
  std::vector<int> frontier;

  void end() const {}
};
using cudaEvent_t = on_host_event*;

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
  if (on_host::fails("cudaEventCreateWithFlags")) return on_host::returned(cudaErrorMemoryAllocation);
  *e = on_host::handles<on_host_event>::make(on_host_event{on_host::current_device, flags, false, {}, {}, {}});
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, cudaEventDefault); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
  on_host::handles<on_host_event>::destroy("cudaEventDestroy", e);
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto& e = on_host::handles<on_host_event>::use("cudaEventRecord", event);
  auto& s = on_host::stream_of("cudaEventRecord", stream);
  if (e.device != s.device)
    on_host::violated("cudaEventRecord", "event and stream are of different devices", "they must be of the same one");
  if (on_host::fails("cudaEventRecord")) return on_host::returned(cudaErrorLaunchFailure);
  on_host::bookkeeping const unseen;
  e.recorded = true;
  e.at = s.last;
  e.recorded_in = s.recording;
  e.frontier = s.frontier;
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  constexpr auto call = "cudaStreamWaitEvent";
  auto& s = on_host::stream_of(call, stream);
  auto const& e = on_host::handles<on_host_event>::use(call, event);
  if (!e.recorded) on_host::violated(call, "the event was never recorded", "the stream would wait for nothing");
  if (s.recording != nullptr && e.recorded_in == nullptr)
    on_host::violated(call, "the stream captures, and the event is not of its capture",
                      "a capture waits only for its own");
  if (s.recording != nullptr && s.recording != e.recorded_in)
    on_host::violated(call, "stream and event are of different captures", "captures are not merged");
  if (on_host::fails(call)) return on_host::returned(cudaErrorLaunchFailure);
  on_host::bookkeeping const unseen;
  if (e.recorded_in != nullptr) {
    s.recording = e.recorded_in;
    s.frontier.insert(s.frontier.end(), e.frontier.begin(), e.frontier.end());
  } else {
    on_host::start(s, {}, {s.last, e.at});
  }
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto const& e = on_host::handles<on_host_event>::use("cudaEventSynchronize", event);
  if (!e.recorded)
    on_host::violated("cudaEventSynchronize", "the event was never recorded", "the host would wait for nothing");
  if (e.recorded_in != nullptr)
    on_host::violated("cudaEventSynchronize", "it is an event of a capture", "nothing runs");
  if (on_host::fails("cudaEventSynchronize")) return on_host::returned(cudaErrorLaunchFailure);
  on_host::bookkeeping const unseen;
  on_host::device_queue::finish(e.at);
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto const& e = on_host::handles<on_host_event>::use("cudaEventQuery", event);
  if (e.recorded_in != nullptr) on_host::violated("cudaEventQuery", "it is an event of a capture", "nothing runs");
  if (on_host::fails("cudaEventQuery")) return on_host::returned(cudaErrorLaunchFailure);
  on_host::bookkeeping const unseen;
  if (on_host::draw(2) == 0) on_host::device_queue::try_to_finish(e.at);
  return e.at == nullptr || e.at->done ? cudaSuccess : cudaErrorNotReady;
}
