#pragma once

#include "constrain/device/cuda/nccl_group.cuh"
#include "constrain/device/cuda/stream.cuh"

#include <functional>
#include <memory>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The groups of ranks whose devices exchange data in the runs of one stream. The stream waits with a deadline: if its
/// work is not done by then, or if NCCL reports a failure, the groups are aborted once, and every later call throws.
class nccl_ranks final : public stream_waiter {
public:
  /// `data`: the ranks that train on different data; `zero`: those that together hold the shards of a tensor.
  /// `deadline`: seconds that this rank waits for the others. `ordered`: whether gradients are added in rank order.
  /// `before_abort` must destroy all graphs with calls of the groups. The stream's device must be current. Throws
  /// `error` as `nccl_group` does. Collective.
  nccl_ranks(communicator& data, communicator& zero, double deadline, bool ordered, std::function<void()> before_abort)
      : deadline_(deadline), ordered_(ordered), before_abort_(std::move(before_abort)) {
    if (data.size() > 1) data_ = std::make_unique<nccl_group>(data, deadline);
    if (zero.size() > 1 && zero.size() < data.size()) zero_ = std::make_unique<nccl_group>(zero, deadline);
    cuda_check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "make an event");
  }
  ~nccl_ranks() override {
    if (done_ != nullptr) cudaEventDestroy(done_);
  }

  /// The ranks that train on different data, and those that together hold a tensor; each at least 2.
  nccl_group& data() { return *data_; }
  nccl_group& zero() { return zero_ ? *zero_ : *data_; }
  /// Whether gradients are added in rank order, not in an order that NCCL chooses.
  bool ordered() const { return ordered_; }
  /// Number of collective calls so far.
  std::int64_t calls() const { return (data_ ? data_->calls() : 0) + (zero_ ? zero_->calls() : 0); }

  /// Waits until the work of the stream is complete. Polls: a thread that synchronizes with a stream that waits for a
  /// rank that has ended never returns. Throws `error` if CUDA or NCCL fails, or after the deadline.
  void wait(cudaStream_t stream) override {
    watchdog::wait const waits("running the kernels", deadline_ + 10);
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
    cuda_check(cudaEventRecord(done_, stream), "record an event");
    for (;;) {
      auto const status = cudaEventQuery(done_);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) cuda_check(status, "run the kernels");
      cudaGetLastError(); // the status "not ready" is no error for the program's own calls
      for (auto* group : {data_.get(), zero_.get()})
        if (group != nullptr) group->check_health();
      if (data_ && waited.seconds() > deadline_) data_->throw_late("run the kernels", deadline_);
      detail::pause_of_poll();
    }
  }
  /// Aborts both groups; `nccl_group::abort` does so once.
  void abort() {
    before_abort_();
    ncclGroupStart(); // otherwise the abort of one group could wait for the kernels of the other
    if (zero_) zero_->abort();
    if (data_) data_->abort();
    ncclGroupEnd();
  }

  double deadline_;
  bool ordered_;
  std::function<void()> before_abort_;
  cudaEvent_t done_ = nullptr;
  std::unique_ptr<nccl_group> data_, zero_; // null: a group of one rank; `zero_` also if it has all ranks of `data_`
};

} // namespace constrain
