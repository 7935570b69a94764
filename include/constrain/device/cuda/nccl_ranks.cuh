#pragma once

#include "constrain/device/cuda/nccl_group.cuh"
#include "constrain/device/cuda/stream.cuh"

#include <functional>
#include <memory>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The groups of ranks for collectives on one stream. `wait` aborts the groups and throws `error` if CUDA or NCCL
/// reports a failure or, with at least 2 ranks, if `wait` takes longer than the deadline. After that, every collective
/// call throws `error`, except an all-gather of 0 elements per rank.
class nccl_ranks final : public stream_waiter {
public:
  /// `data`: the ranks that train on different data; `zero`: the ranks that together hold the shards of a tensor.
  /// `deadline`: seconds that this rank waits for the others. `ordered`: whether gradients are added in rank order.
  /// `before_abort()` must destroy all graphs with calls of the groups. `wait` calls it before aborting the groups; the
  /// destructor does not call it. The stream's device must be current. Throws `error` as `nccl_group` does, and if CUDA
  /// fails. Collective.
  nccl_ranks(communicator& data, communicator& zero, double deadline, bool ordered, std::function<void()> before_abort)
      : deadline_(deadline), ordered_(ordered), before_abort_(std::move(before_abort)) {
    if (data.size() > 1) data_ = std::make_unique<nccl_group>(data, deadline);
    if (zero.size() > 1 && zero.size() < data.size()) zero_ = std::make_unique<nccl_group>(zero, deadline);
    cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "make an event");
  }
  /// Ends the groups, first `zero`, then `data`, as the destructor of `nccl_group` does. If a group has failed, if NCCL
  /// does not complete this rank's work in a group within `deadline` seconds, or during stack unwinding, aborts the
  /// groups that are not yet disconnected. All graphs with calls of the groups must have been destroyed.
  ~nccl_ranks() override {
    auto const fails = [](auto const& group) { return group && group->has_failed(); };
    auto const disconnects = [](auto const& group) { return !group || group->disconnect(); };
    if (fails(data_) || fails(zero_) || !disconnects(zero_) || !disconnects(data_)) abort_groups();
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  /// The ranks that train on different data, and the ranks that together hold the shards of a tensor. Call each only if
  /// its group has at least 2 ranks.
  nccl_group& data() { return *data_; }
  nccl_group& zero() { return zero_ ? *zero_ : *data_; }
  /// Whether gradients are added in rank order, not in an order that NCCL chooses.
  bool ordered() const { return ordered_; }
  /// Number of collective calls so far.
  std::int64_t calls() const { return (data_ ? data_->calls() : 0) + (zero_ ? zero_->calls() : 0); }

  /// Waits until the work of the stream is complete. Polls, because cudaStreamSynchronize would never return if the
  /// stream waits for a rank that has ended. If CUDA or NCCL fails or, with at least 2 ranks, if this takes longer than
  /// `deadline` seconds, calls `before_abort()`, aborts the groups and throws `error`.
  void wait(cudaStream_t stream) override {
    watchdog::wait const guard("running the kernels", deadline_ + 10);
    try {
      poll(stream);
    } catch (...) {
      abort();
      throw;
    }
  }

private:
  void poll(cudaStream_t stream) {
    waited_time waited;
    cuda_check(cudaEventRecord(event_, stream), "record an event");
    for (;;) {
      auto const status = cudaEventQuery(event_);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) cuda_check(status, "run the kernels");
      cudaGetLastError(); // clears "not ready", so that the program's own error checks do not report it
      for (auto* group : {data_.get(), zero_.get()}) // after a failure, the stream has only work of this rank
        if (group != nullptr && !group->has_failed()) group->check_health();
      if (data_ && waited.seconds() > deadline_) data_->throw_timeout("run the kernels", deadline_);
      detail::sleep_between_polls();
    }
  }
  /// Destroys the graphs, then aborts the groups.
  void abort() {
    before_abort_();
    abort_groups();
  }
  /// Aborts the groups; does nothing for a group that is aborted or disconnected.
  void abort_groups() {
    watchdog::wait const guard("ending the calls on the devices", 10);
    ncclGroupStart(); // otherwise the abort of one group could wait for the kernels of the other
    if (zero_) zero_->abort();
    if (data_) data_->abort();
    ncclGroupEnd();
  }

  double deadline_;
  bool ordered_;
  std::function<void()> before_abort_;
  cudaEvent_t event_ = nullptr;
  std::unique_ptr<nccl_group> data_, zero_; // null: one rank; `zero_` is also null if it would equal `data_`
};

} // namespace constrain
