#pragma once

#include "stream.hpp"

#include <cstddef>
#include <memory>
#include <set>
#include <utility>
#include <vector>

struct on_host_graph {
  static constexpr char const* name = "graph";
  std::vector<on_host::captured_work> nodes;

  void end() { nodes.clear(); }
};
using cudaGraph_t = on_host_graph*;

struct on_host_executable {
  static constexpr char const* name = "executable graph";
  std::vector<on_host::captured_work> nodes;
  on_host::work_ptr previous; // launches of one graph run one after another

  void end() { nodes.clear(); }
};
using cudaGraphExec_t = on_host_executable*;

namespace on_host {

/// The nodes of `from` and all nodes before them.
inline std::set<int> up_to(std::vector<captured_work> const& nodes, std::vector<int> from) {
  std::set<int> all;
  while (!from.empty()) {
    int const node = from.back();
    from.pop_back();
    if (!all.insert(node).second) continue;
    auto const& before = nodes[static_cast<std::size_t>(node)].after;
    from.insert(from.end(), before.begin(), before.end());
  }
  return all;
}

/// Ends the capture of all its streams. `joined`: refuses a stream whose work the first one does not wait for.
inline void end_capture(on_host_stream& origin, bool joined) {
  auto const ended = origin.recording;
  auto const reached = up_to(ended->nodes, origin.frontier);
  for (auto* s : handles<on_host_stream>::living()) {
    if (s->recording != ended) continue;
    for (int node : s->frontier)
      if (joined && reached.count(node) == 0)
        violated("cudaStreamEndCapture", "the capture has a stream that was not joined",
                 "the stream that began waits for an event of every other one");
    s->recording = nullptr;
    s->began_recording = false;
    s->frontier.clear();
  }
}

} // namespace on_host

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  constexpr auto call = "cudaStreamBeginCapture";
  if (stream == nullptr) on_host::violated(call, "the stream is the default stream", "that one cannot capture");
  auto& s = on_host::handles<on_host_stream>::use(call, stream);
  if (s.recording != nullptr) on_host::violated(call, "the stream captures already", "a capture ends before the next");
  if (on_host::fails(call)) return on_host::returned(cudaErrorUnknown);
  on_host::bookkeeping const unseen;
  s.recording = std::make_shared<on_host::capture>(on_host::capture{mode, {}});
  s.began_recording = true;
  s.frontier.clear();
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  constexpr auto call = "cudaStreamEndCapture";
  auto& s = on_host::handles<on_host_stream>::use(call, stream);
  if (s.recording == nullptr) on_host::violated(call, "the stream does not capture", "it must have begun");
  if (!s.began_recording) on_host::violated(call, "another stream began the capture", "the one that began ends it");
  *graph = nullptr;
  on_host::bookkeeping const unseen;
  if (on_host::refuse_work != nullptr) on_host::refuse_work();
  auto const ended = s.recording;
  bool const failed = on_host::fails(call);
  on_host::end_capture(s, !failed);
  if (failed) return on_host::returned(cudaErrorUnknown);
  *graph = on_host::handles<on_host_graph>::make(on_host_graph{ended->nodes});
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  auto const& s = on_host::stream_of("cudaStreamIsCapturing", stream);
  if (on_host::fails("cudaStreamIsCapturing")) return on_host::returned(cudaErrorUnknown);
  *status = s.recording != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long = 0) {
  auto const& g = on_host::handles<on_host_graph>::use("cudaGraphInstantiate", graph);
  if (on_host::fails("cudaGraphInstantiate")) {
    *executable = reinterpret_cast<cudaGraphExec_t>(1); // CUDA does not say what is here: whoever uses it is refused
    return on_host::returned(cudaErrorMemoryAllocation);
  }
  ++on_host::allocations;
  *executable = on_host::handles<on_host_executable>::make(on_host_executable{g.nodes, {}});
  return cudaSuccess;
}
/// Counts the nodes; does not list them.
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, std::nullptr_t, std::size_t* count) {
  *count = on_host::handles<on_host_graph>::use("cudaGraphGetNodes", graph).nodes.size();
  return on_host::fails("cudaGraphGetNodes") ? on_host::returned(cudaErrorUnknown) : cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  on_host::handles<on_host_graph>::destroy("cudaGraphDestroy", graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  on_host::handles<on_host_executable>::destroy("cudaGraphExecDestroy", executable);
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  auto& g = on_host::handles<on_host_executable>::use("cudaGraphLaunch", executable);
  auto& s = on_host::stream_of_current_device("cudaGraphLaunch", stream);
  if (s.recording != nullptr) on_host::not_in_capture("cudaGraphLaunch");
  if (on_host::fails("cudaGraphLaunch")) return on_host::returned(cudaErrorLaunchFailure);
  on_host::bookkeeping const unseen;
  auto const before = s.last;
  std::vector<on_host::work_ptr> started, leaves{before, g.previous};
  for (auto const& node : g.nodes) {
    std::vector<on_host::work_ptr> after;
    if (node.after.empty()) after = {before, g.previous};
    for (int each : node.after) after.push_back(started[static_cast<std::size_t>(each)]);
    started.push_back(on_host::start(s, node.what, after));
  }
  if (!started.empty()) leaves = started; // simply all of them
  g.previous = on_host::start(s, {}, leaves);
  return cudaSuccess;
}
