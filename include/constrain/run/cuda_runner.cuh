#pragma once

#include "constrain/comm/agreement.hpp"
#include "constrain/device/cuda/context.cuh"
#include "constrain/device/cuda/device.cuh"
#include "constrain/device/cuda/rank_device.cuh"
#include "constrain/device/cuda/stream.cuh"
#if defined(CONSTRAIN_WITH_NCCL)
#include "constrain/device/cuda/nccl_ranks.cuh"
#endif
#include "constrain/run/cuda_arena.cuh"
#include "constrain/run/cuda_enqueuing.cuh"
#include "constrain/run/cuda_graph.cuh"
#include "constrain/run/cuda_staging_buffers.cuh"
#include "constrain/run/executor.hpp"
#include "constrain/run/nvtx_ranges.cuh"
#include "constrain/run/runner.hpp"

#include <exception>
#include <map>
#include <memory>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The runner for a CUDA device: a stream, an arena, and the context (device/cuda/context.cuh) that kernels find in
/// `step_parameters`. All members leave the host thread's current device unchanged, and only the constructor can depend
/// on that device.
template <class architecture, bool graph> class runner<cuda<architecture>, graph> {
public:
  using device = cuda<architecture>;

  /// `size`: bytes of the arena. Its last `scratch` bytes are the scratch memory that all plans share; the step
  /// parameters are in the `device::parameter_bytes` bytes before them. `size` - `scratch` must be at least
  /// `device::parameter_bytes`, and a multiple of `device::alignment`. `index`: device index; -1: the host thread's
  /// current device. `stream`: a cudaStream_t of that device, which must outlive the runner; null: the runner makes
  /// one. Throws `error` if the device does not exist, if the memory cannot be allocated, if `stream` is
  /// cudaStreamPerThread or, with `graph`, cudaStreamLegacy, and as `check_code_for`, `cuda_stream` and `cuda_context`
  /// do.
  runner(bytes size, std::int64_t scratch, int index = -1, void* stream = nullptr)
      : runner(size, scratch, current_device(cuda_device(index)), static_cast<cudaStream_t>(stream)) {}

  /// The memory that the plans work on.
  constrain::arena& arena() { return arena_; }
  constrain::arena const& arena() const { return arena_; }

  /// The device of the stream and the arena.
  cuda_device device_of() const { return stream_.device(); }
  /// The context of the kernels, and the scratch memory that all plans share.
  cuda_context& context() { return context_; }
  std::byte* scratch() const { return scratch_; }
  /// The pinned memory of enqueued runs.
  cuda_staging_buffers& staging_buffers() { return staging_buffers_; }
  /// Enqueues a run of the plan `planned_entry::value`: see `cuda_enqueuing`.
  template <class planned_entry> using enqueuing = cuda_enqueuing<planned_entry, runner>;

  /// The index of this rank's device; arguments and errors as for `device_of_rank`. Collective.
  static int device_for(int index, communicator& world) { return device_of_rank(index, world); }

#if defined(CONSTRAIN_WITH_NCCL)
  /// Connects this rank's device with the devices of the other ranks; does nothing if `data` has one rank. Call this at
  /// most once. The communicators must outlive the runner. Arguments and errors as for `nccl_ranks`. Collective.
  void connect(communicator& data, communicator& zero, double deadline, bool ordered) {
    if (data.size() == 1) return;
    current_device const here(stream_.device());
    ranks_ = std::make_unique<nccl_ranks>(data, zero, deadline, ordered, [this] { launches_.clear(); });
    all_ranks_ = &data;
    context_.connect(*ranks_);
    stream_.set_waiter(ranks_.get());
  }
#endif

  /// Enqueues one run of the plan `planned_entry::value` on the stream, and does not wait for it. `parameters`: all but
  /// `context`, which this function sets. `h`: the hooks. With `graph` and no hooks, the plan's launches are captured
  /// in a graph after the first run, and later runs replay the graph. With `graph`, `valid_labels` is ignored, so no
  /// iteration is skipped. If the plan has collectives, either all ranks replay or none does. `call`: the call of the
  /// library that runs the plan. Throws `error` if CUDA reports an error, and what a kernel or a hook throws.
  template <class planned_entry, joint_call call = joint_call::step, class hooks = no_hooks>
  void run(step_parameters parameters, hooks&& h = {}) {
    current_device const here(stream_.device());
    parameters.context = &context_;
    if constexpr (graph) parameters.valid_labels = nullptr; // a captured graph has a fixed number of launches
    auto const view = view_of<planned_entry, device>();
    auto&& ranges = with_ranges<planned_entry>(h);
    auto const start = [&] { execute(view, arena_.data(), parameters, ranges, scratch_); };
    if constexpr (graph && std::is_same_v<hooks, no_hooks>) {
      auto& launches = launches_[&planned_entry::value];
      if (launches.has_run && !launches.captured_graph.captured()) capture(call, launches, start);
      context_.write_parameters(arena_.staged(parameters));
      if (launches.captured_graph.captured()) return launches.captured_graph.replay(stream_);
      // The first run is not captured: it loads kernels and chooses GEMM algorithms, which a capture does not allow.
      auto const calls = collective_calls();
      start();
      launches.has_run = true;
      launches.has_collectives = collective_calls() != calls;
      try {
        capture(call, launches, start);
      } catch (std::exception const&) { // this run is enqueued; the next run first tries to capture again
        cudaGetLastError();             // clears the error, so that the program's own error checks do not report it
      }
    } else {
      context_.write_parameters(arena_.staged(parameters));
      start();
    }
  }

private:
  /// The captured launches of a plan.
  struct plan_launches {
    cuda_graph captured_graph;    // without a graph until a capture succeeds
    bool has_run = false;         // whether the plan has run once without hooks, so that it can be captured
    bool has_collectives = false; // whether the first run called collectives
  };

  /// Captures the launches of `start()`. If the launches contain collectives and the capture fails on one rank, throws
  /// on all ranks. `call`: as in `run`.
  template <class function> void capture(joint_call call, plan_launches& launches, function const& start) {
    auto const capture_locally = [&] { launches.captured_graph.capture(stream_, start); };
    if (!launches.has_collectives) return capture_locally();
    try {
      agreed(*all_ranks_, call, capture_locally);
    } catch (...) {
      launches.captured_graph = cuda_graph();
      throw;
    }
  }
  /// Number of calls to collectives so far.
  std::int64_t collective_calls() const {
#if defined(CONSTRAIN_WITH_NCCL)
    return ranks_ ? ranks_->calls() : 0;
#else
    return 0;
#endif
  }

  /// Implements the public constructor on the device of `here`, which stays current until the constructor returns.
  runner(bytes size, std::int64_t scratch, current_device const& here, cudaStream_t stream)
      : stream_(checked_device(here.device()), checked_stream(stream)), arena_(size, stream_),
        scratch_(arena_.data() + size.count() - scratch), context_(stream_, scratch_ - device::parameter_bytes) {}

  /// Returns `device`; throws the errors of `check_code_for`.
  static cuda_device checked_device(cuda_device device) {
    check_code_for<architecture>(device);
    return device;
  }

  /// Returns `stream`; throws `error` for a stream that does not keep the order of the runner's work, and if the runner
  /// would have to capture it and CUDA cannot.
  static cudaStream_t checked_stream(cudaStream_t stream) {
    if (stream == cudaStreamPerThread)
      throw error("device::cuda: `.cuda_stream` is cudaStreamPerThread, which is a different stream on each thread; "
                  "leave it null, or make a stream with cudaStreamCreateWithFlags");
    if (graph && stream == cudaStreamLegacy)
      throw error("launch::graph: `.cuda_stream` is cudaStreamLegacy, the legacy default stream, which CUDA cannot "
                  "capture; leave it null, make a stream with cudaStreamCreateWithFlags, or write launch::eager");
    return stream;
  }

  cuda_stream stream_;
  cuda_arena arena_;
  cuda_staging_buffers staging_buffers_{stream_, arena_};
  std::byte* scratch_;
  cuda_context context_;
  communicator* all_ranks_ = nullptr; // the ranks that run the same plans; null: no other ranks
#if defined(CONSTRAIN_WITH_NCCL)
  // Destroyed after the graphs, and before the arena, whose destructor waits for the device.
  std::unique_ptr<nccl_ranks> ranks_;
#endif
  std::map<void const*, plan_launches> launches_; // by the address of the plan
};

} // namespace constrain
