#pragma once

#include "constrain/device/cuda/queue.cuh"
#include "constrain/device/cuda/stream.cuh"
#include "constrain/run/cuda_arena.cuh"
#include "constrain/run/cuda_graph.cuh"
#include "constrain/run/executor.hpp"
#include "constrain/run/runner.hpp"

#include <map>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

template <class architecture, bool graph> class runner<cuda<architecture>, graph> {
public:
  using device = cuda<architecture>;

  explicit runner(bytes size)
      : stream_(architecture::capability), arena_(size, stream_),
        queue_(stream_, arena_.data() + size.count() - device::reserve) {}

  constrain::arena& arena() { return arena_; }
  constrain::arena const& arena() const { return arena_; }

  template <class planned_entry, class hooks = no_hooks> void run(run_numbers numbers, hooks&& h = {}) {
    numbers.queue = &queue_;
    queue_.write_numbers(numbers);
    auto const view = view_of<planned_entry, device>();
    if constexpr (graph && std::is_same_v<hooks, no_hooks>) {
      auto& recorded = graphs_[&planned_entry::value];
      if (recorded.recorded()) return recorded.replay(stream_);
      // The first run loads the kernels and chooses the products' algorithms, none of which may happen while recording.
      execute(view, arena_.data(), numbers, h);
      recorded.record(stream_, [&] { execute(view, arena_.data(), numbers, h); });
    } else {
      execute(view, arena_.data(), numbers, h);
    }
  }

private:
  cuda_stream stream_;
  cuda_arena arena_;
  cuda_queue queue_;
  std::map<void const*, cuda_graph> graphs_;
};

} // namespace constrain
