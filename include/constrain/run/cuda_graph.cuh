#pragma once

#include "constrain/device/cuda/check.cuh"

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What was started on a stream between two points, to be started again as one piece.
class cuda_graph {
public:
  cuda_graph() = default;
  cuda_graph(cuda_graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  ~cuda_graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  /// Whether there is a graph to replay.
  bool recorded() const { return executable_ != nullptr; }

  /// Records what `f` starts; nothing runs meanwhile.
  template <class function> void record(cudaStream_t stream, function const& f) {
    cudaGraph_t graph{};
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "begin to record a graph");
    try {
      f();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    cuda_check(cudaStreamEndCapture(stream, &graph), "record a graph");
    auto const status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(status, "make a graph ready");
  }
  void replay(cudaStream_t stream) const { cuda_check(cudaGraphLaunch(executable_, stream), "start a graph"); }

private:
  cudaGraphExec_t executable_ = nullptr;
};

} // namespace constrain
