#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/program/plan.hpp"
#include "constrain/run/cuda_staging_buffers.cuh"
#include "constrain/run/overwrite_if_skipped.cuh"

#include <cstdint>
#include <memory>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Enqueues a run of the plan `planned_entry::value` on a runner for a CUDA device. Construct the object before the
/// run's inputs are written to the arena, call `run` of the runner, then `end`. From the constructor to `end`, copies
/// to the arena go through pinned memory and do not wait.
template <class planned_entry, class runner> class cuda_enqueuing {
public:
  /// Waits until the second-to-last enqueued run is complete. `r`, the runner, must outlive this object. Throws `error`
  /// if CUDA reports an error.
  explicit cuda_enqueuing(runner& r) : runner_(r) { runner_.staging_buffers().begin(input_bytes(), result_bytes()); }
  /// If `end` has not returned, waits until the stream's work so far is complete.
  ~cuda_enqueuing() {
    if (!ended_) runner_.staging_buffers().abandon();
  }
  cuda_enqueuing(cuda_enqueuing const&) = delete;
  cuda_enqueuing& operator=(cuda_enqueuing const&) = delete;

  /// Enqueues a kernel that overwrites the hyperparameters in the arena with `replacement` if the device has skipped
  /// the update of the previous step. The entry `step` needs this if the host does not know yet whether the device
  /// skips that update. Call this function after the hyperparameters have been written, and before the run. Does
  /// nothing if no step was enqueued before. Throws `error` if CUDA fails.
  template <class hyperparameters> void use_if_skipped(hyperparameters const& replacement) {
    auto const* const norm =
        reinterpret_cast<storage<norm_and_scale().type> const*>(runner_.staging_buffers().last_results());
    if (norm == nullptr) return; // there is no previous step
    current_device const here(runner_.device_of());
    overwrite_if_skipped(runner_.context(), norm, replacement,
                         runner_.arena().data() + planned_entry::value.hyper.offset);
  }
  /// Enqueues copies of the results, in this order: the gradient norm (the first element of `clip_coefficient`), the
  /// loss, and all of `gradient_squares`. Returns the copies, which may still be pending. For how long they stay valid,
  /// and for errors, see `cuda_staging_buffers::end`.
  std::shared_ptr<pending_results> end() {
    auto results = runner_.staging_buffers().end({{norm_and_scale(), 1}, {loss(), 1}, {squares(), squares().elements}});
    ended_ = true;
    return results;
  }

private:
  static constexpr host_view norm_and_scale() { return planned_entry::value.result("clip_coefficient"); }
  static constexpr host_view loss() { return planned_entry::value.result("loss"); }
  static constexpr host_view squares() { return planned_entry::value.result("gradient_squares"); }
  static constexpr std::int64_t result_bytes() {
    return padded_bytes(norm_and_scale(), 1) + padded_bytes(loss(), 1) + padded_bytes(squares(), squares().elements);
  }
  /// Bytes of all copies to the arena: arrays, hyperparameters, the inverse label count and the step parameters.
  static constexpr std::int64_t input_bytes() {
    auto const& plan = planned_entry::value;
    auto total = padded_bytes(plan.hyper, plan.hyper.elements) + static_cast<std::int64_t>(sizeof(double)) +
                 (static_cast<std::int64_t>(sizeof(step_parameters)) + 7) / 8 * 8;
    for (auto const& port : plan.ports)
      if (port.kind != port_kind::result) total += padded_bytes(port.view, port.view.elements);
    return total;
  }

  runner& runner_;
  bool ended_ = false;
};

} // namespace constrain
