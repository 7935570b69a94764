#pragma once

#include "constrain/device/cuda/check.cuh"

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A CUDA graph: kernels, copies and memsets on a stream, captured once and replayed with one launch.
class cuda_graph {
public:
  cuda_graph() = default;
  cuda_graph(cuda_graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  cuda_graph& operator=(cuda_graph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~cuda_graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  /// Whether a graph has been captured.
  bool captured() const { return executable_ != nullptr; }

  /// Captures the work that `f()` enqueues on `stream`, without running it. Call this only if no graph has been
  /// captured. Throws `error` if CUDA reports an error, and what `f` throws; in both cases, there is still no graph.
  template <class function> void capture(cudaStream_t stream, function const& f) {
    cudaGraph_t graph{};
    // Relaxed: calls such as cudaMalloc, in `f` or in other threads, do not invalidate the capture.
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "begin to capture a graph");
    try {
      f();
    } catch (...) {
      if (cudaStreamEndCapture(stream, &graph) != cudaSuccess)
        cudaGetLastError(); // clears the error, so that the program's own error checks do not report it
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    cuda_check(cudaStreamEndCapture(stream, &graph), "capture a graph");
    cudaGraphExec_t executable{}; // not `executable_`: after a failure, the handle is not valid
    auto const status = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(status, "instantiate a graph");
    executable_ = executable;
  }
  /// Launches the captured graph on `stream`; there must be one. Throws `error` if CUDA reports an error.
  void replay(cudaStream_t stream) const { cuda_check(cudaGraphLaunch(executable_, stream), "launch a graph"); }

private:
  cudaGraphExec_t executable_ = nullptr;
};

} // namespace constrain
