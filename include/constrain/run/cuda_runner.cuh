#pragma once

#include "constrain/device/cuda/context.cuh"
#include "constrain/device/cuda/stream.cuh"
#include "constrain/run/cuda_arena.cuh"
#include "constrain/run/cuda_graph.cuh"
#include "constrain/run/executor.hpp"
#include "constrain/run/runner.hpp"

#include <map>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The runner for a CUDA device: a stream, an arena, and the context (device/cuda/context.cuh) that kernels find
/// in `step_parameters`.
template <class architecture, bool graph> class runner<cuda<architecture>, graph> {
public:
  using device = cuda<architecture>;

  /// `size`: of the arena; its last `scratch` bytes are the scratch memory of all plans, after the step parameters.
  runner(bytes size, std::int64_t scratch)
      : stream_(architecture::capability), arena_(size, stream_), scratch_(arena_.data() + size.count() - scratch),
        context_(stream_, scratch_ - device::parameters) {}

  /// The memory that the plans work on.
  constrain::arena& arena() { return arena_; }
  constrain::arena const& arena() const { return arena_; }

  /// The context of the kernels, and the scratch memory of all plans.
  cuda_context& context() { return context_; }
  std::byte* scratch() const { return scratch_; }

  /// Runs the plan `planned_entry::value` once. With `graph` and no hooks, the plan's launches are captured in a graph
  /// after the first run, and later runs replay the graph.
  template <class planned_entry, class hooks = no_hooks> void run(step_parameters parameters, hooks&& h = {}) {
    parameters.context = &context_;
    if constexpr (graph) parameters.valid_labels = nullptr; // a captured graph has a fixed number of launches
    context_.write_parameters(parameters);
    auto const view = view_of<planned_entry, device>();
    if constexpr (graph && std::is_same_v<hooks, no_hooks>) {
      auto& launches = graphs_[&planned_entry::value];
      if (launches.captured()) return launches.replay(stream_);
      // The first run is not captured: it loads kernels and chooses GEMM algorithms, which a capture does not allow.
      execute(view, arena_.data(), parameters, h, scratch_);
      launches.capture(stream_, [&] { execute(view, arena_.data(), parameters, h, scratch_); });
    } else {
      execute(view, arena_.data(), parameters, h, scratch_);
    }
  }

private:
  cuda_stream stream_;
  cuda_arena arena_;
  std::byte* scratch_;
  cuda_context context_;
  std::map<void const*, cuda_graph> graphs_;
};

} // namespace constrain
