#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/error.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/comm/communicator.hpp"
#include "constrain/comm/waited_time.hpp"
#include "constrain/comm/watchdog.hpp"
#include "constrain/device/cuda/check.cuh"

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// NCCL's name for the type of an element in memory.
template <class stored> constexpr ncclDataType_t nccl_type() {
  switch (dtype_of<stored>) {
  case dtype::u8: return ncclUint8;
  case dtype::i32: return ncclInt32;
  case dtype::f16: return ncclFloat16;
  case dtype::bf16: return ncclBfloat16;
  case dtype::f32: return ncclFloat32;
  case dtype::f64: break;
  }
  return ncclFloat64;
}

/// The unique id of a group, made by NCCL. (nvcc 13.0 fails on a vector of ncclUniqueId, a struct without a name.)
struct unique_id {
  ncclUniqueId value;
};

/// Sleeps between two polls by the host.
inline void sleep_between_polls() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

} // namespace detail

/// A group of ranks with one CUDA device each, connected by NCCL (an `ncclComm_t`). Collective calls are enqueued on a
/// stream: all ranks must enqueue the same calls in the same order. A collective call does not wait for the stream:
/// NCCL is in its non-blocking mode, and the host polls until NCCL has accepted the call. A call that waits longer than
/// the deadline for other ranks throws `error`. After this or another failure, all later collective calls throw
/// `error`, except an all-gather of 0 elements per rank.
class nccl_group {
public:
  /// Connects the current devices of `ranks`, at least 2 ranks. The devices must be different, and must not be reset
  /// before the group ends. `deadline`: seconds that this rank waits for the others. Throws `error` on all ranks if
  /// rank 0 cannot make the unique id, and on this rank if NCCL or the communication fails, or if another rank does not
  /// connect before the deadline. Collective.
  nccl_group(communicator& ranks, double deadline) : rank_(ranks.rank()), size_(ranks.size()), deadline_(deadline) {
    std::vector<detail::unique_id> ids(static_cast<std::size_t>(size_));
    agreed(ranks, joint_call::construction, [&] {
      if (rank_ == 0) check(ncclGetUniqueId(&ids[0].value), "make a unique id");
    });
    detail::all_gather_values(ranks, ids.data());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      wait_until_accepted(ncclCommInitRankConfig(&comm_, size_, ids[0].value, rank_, &config), "connect the devices");
    } catch (...) {
      abort();
      throw;
    }
  }
  nccl_group(nccl_group const&) = delete;
  nccl_group& operator=(nccl_group const&) = delete;
  /// Ends the group: calls `disconnect`, and `abort` if `disconnect` returns false. All graphs with calls of this group
  /// must have been destroyed: NCCL waits for them. NCCL may also wait until the other ranks on the node end the group:
  /// the process ends if this takes longer than `deadline` + 10 seconds.
  ~nccl_group() {
    if (!disconnect()) abort();
    watchdog::wait const guard("disconnecting the devices", deadline_ + call_timeout);
    if (comm_ != nullptr) ncclCommDestroy(comm_);
  }
  /// Waits, at most `deadline` seconds, until NCCL has completed this rank's work, and returns whether it has. If the
  /// group has failed, or during stack unwinding, returns false without waiting. Later calls repeat the result of the
  /// first, without waiting. After this function, call only `abort` and the destructor.
  bool disconnect() {
    if (std::uncaught_exceptions() > 0) mark_failed("an exception ends the run");
    if (failed_ || is_disconnected_) return is_disconnected_;
    try {
      wait_until_accepted(ncclCommFinalize(comm_), "disconnect the devices");
      is_disconnected_ = true;
    } catch (...) {} // `wait_until_accepted` has marked the group as failed
    return is_disconnected_;
  }

  /// This rank, and the number of ranks.
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Number of collective calls so far.
  std::int64_t calls() const { return calls_; }

  /// All-gather: rank r's shard arrives at elements [begin(r), begin(r) + length(r)) of `full` on every rank. Before
  /// the call, this rank's elements of `full` must contain this rank's shard. `shards` has member functions `begin` and
  /// `length`, with equal results on all ranks. Throws `error` if NCCL fails.
  template <class stored, class map> void all_gather(cudaStream_t stream, stored* full, map const& shards) {
    if (are_equal_and_adjacent(shards))
      return all_gather(stream, full + shards.begin(rank_), shards.length(0), full + shards.begin(0));
    enqueue("all-gather", [&] {
      for (int r = 0; r < size_; ++r) {
        auto* const shard = full + shards.begin(r);
        if (shards.length(r) > 0)
          check_enqueued(
              ncclBroadcast(shard, shard, to_size(shards.length(r)), detail::nccl_type<stored>(), r, comm_, stream));
      }
    });
  }
  /// All-gather of `count` elements per rank: full[r * count + i] = shard[i] of rank r. `shard` may be this rank's
  /// range of `full`, and must not overlap the other ranges. Throws `error` if NCCL fails. If `count` is 0, does
  /// nothing, even after a failure.
  template <class stored> void all_gather(cudaStream_t stream, stored const* shard, std::int64_t count, stored* full) {
    if (count == 0) return;
    enqueue("all-gather", [&] {
      check_enqueued(ncclAllGather(shard, full, to_size(count), detail::nccl_type<stored>(), comm_, stream));
    });
  }
  /// All-to-all, without the elements that a rank would send to itself: sends elements [begin(r), begin(r) + length(r))
  /// of `send` to every other rank r. Data from rank r arrives at element r * stride of `receive`. `ranges`: as
  /// `shards` of `all_gather`. Throws `error` if NCCL fails.
  template <class stored, class map>
  void all_to_all(cudaStream_t stream, stored const* send, map const& ranges, stored* receive, std::int64_t stride) {
    constexpr auto type = detail::nccl_type<stored>();
    enqueue("exchange data", [&] {
      for (int r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        if (ranges.length(r) > 0)
          check_enqueued(ncclSend(send + ranges.begin(r), to_size(ranges.length(r)), type, r, comm_, stream));
        if (ranges.length(rank_) > 0)
          check_enqueued(ncclRecv(receive + r * stride, to_size(ranges.length(rank_)), type, r, comm_, stream));
      }
    });
  }

  /// All-reduce by NCCL, in place: y[i] becomes the sum of y[i] over the ranks, in an order that NCCL chooses. Throws
  /// `error` if NCCL fails.
  template <class stored> void all_reduce(cudaStream_t stream, stored* y, std::int64_t count) {
    enqueue("all-reduce", [&] {
      check_enqueued(ncclAllReduce(y, y, to_size(count), detail::nccl_type<stored>(), ncclSum, comm_, stream));
    });
  }
  /// Reduce-scatter by NCCL: `shard` becomes elements [begin(r), begin(r) + length(r)) of the sum of `full` over the
  /// ranks, for this rank r, in an order that NCCL chooses. `ranges`: as `shards` of `all_gather`. Throws `error` if
  /// NCCL fails.
  template <class stored, class map>
  void reduce_scatter(cudaStream_t stream, stored const* full, map const& ranges, stored* shard) {
    constexpr auto type = detail::nccl_type<stored>();
    bool const equal = are_equal_and_adjacent(ranges);
    enqueue("reduce-scatter", [&] {
      if (equal && ranges.length(0) > 0)
        return check_enqueued(
            ncclReduceScatter(full + ranges.begin(0), shard, to_size(ranges.length(0)), type, ncclSum, comm_, stream));
      for (int r = 0; r < size_; ++r)
        if (ranges.length(r) > 0)
          check_enqueued(
              ncclReduce(full + ranges.begin(r), shard, to_size(ranges.length(r)), type, ncclSum, r, comm_, stream));
    });
  }

  /// Whether a call or a wait of this group has failed, `abort` was called before `disconnect` succeeded, or
  /// `disconnect` was called during stack unwinding.
  bool has_failed() const { return failed_; }
  /// Throws `error` if NCCL has found a failure of a rank or a connection, or if the group has failed before.
  void check_health() {
    refuse_if_failed();
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "query its errors");
    if (state != ncclInProgress) check(state, "communicate");
  }
  /// Marks the group as failed, and throws the `error` of a rank that has waited `seconds` for the others; if the group
  /// has failed before, the error names the first cause. `what`: the action that waited, such as "run the kernels".
  [[noreturn, gnu::cold]] void throw_timeout(char const* what, double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", seconds);
    mark_failed(concat(
        {"rank ", rank_, " of a group of ", size_, " ranks has waited ", text, " s for the other ranks, to ", what,
         ": one of them has ended, is stopped, is too slow or has called another function; check their last "
         "output, and if they are only slow, set a longer run_options::deadline"}));
    throw error(reason_);
  }
  /// Marks the group as failed, and aborts its unfinished collective calls. Does nothing if the group is aborted or
  /// disconnected. All graphs with calls of this group must have been destroyed.
  void abort() {
    if (is_disconnected_) return;
    mark_failed("an earlier call has failed; see its error, and start the program again on all ranks");
    if (comm_ == nullptr) return;
    watchdog::wait const guard("ending the calls on the devices", call_timeout);
    ncclCommAbort(comm_);
    comm_ = nullptr;
  }

private:
  static constexpr double call_timeout = 10; // seconds for a call to NCCL that should not wait for other ranks

  static std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

  /// Whether the ranges of the ranks have equal lengths and follow one another, as ncclAllGather and ncclReduceScatter
  /// require.
  template <class map> bool are_equal_and_adjacent(map const& ranges) const {
    for (int r = 1; r < size_; ++r)
      if (ranges.length(r) != ranges.length(0) || ranges.begin(r) != ranges.begin(0) + r * ranges.length(0))
        return false;
    return true;
  }

  /// Calls f() between ncclGroupStart and ncclGroupEnd, so that the NCCL calls of a loop are one launch, and sends and
  /// receives do not wait for one another.
  template <class function> void enqueue(char const* what, function const& f) {
    refuse_if_failed();
    ++calls_;
    check(ncclGroupStart(), what);
    try {
      f();
    } catch (...) {
      ncclGroupEnd();
      throw;
    }
    wait_until_accepted(ncclGroupEnd(), what);
  }
  /// Checks the status of a call between ncclGroupStart and ncclGroupEnd, which starts the call.
  void check_enqueued(ncclResult_t status) {
    if (status != ncclInProgress) check(status, "enqueue a call");
  }

  /// Waits until NCCL has accepted the call that returned `status`: NCCL allows no other call and no other work on the
  /// stream before that. Marks the group as failed, and throws `error`, if NCCL fails or after the deadline.
  void wait_until_accepted(ncclResult_t status, char const* what) {
    waited_time waited;
    watchdog::wait const guard(what, deadline_ + call_timeout);
    while (status == ncclInProgress) {
      if (waited.seconds() > deadline_) throw_timeout(what, deadline_);
      // NCCL usually accepts a call within microseconds, and a sleep takes longer.
      if (waited.seconds() < 200e-6) std::this_thread::yield();
      else detail::sleep_between_polls();
      check(ncclCommGetAsyncError(comm_, &status), what);
    }
    check(status, what);
  }
  /// Marks the group as failed. `reason`: the cause, for the errors of later calls; only the first cause is kept.
  void mark_failed(std::string reason) {
    if (!failed_) failed_ = true, reason_ = std::move(reason);
  }
  void refuse_if_failed() const {
    if (failed_) throw error({"NCCL: the devices of the ranks are no longer connected: ", reason_});
  }

  /// If NCCL failed, marks the group as failed and throws `error`.
  void check(ncclResult_t status, char const* what) {
    if (status == ncclSuccess) return;
    mark_failed(concat({"NCCL could not ", what, " on rank ", rank_, " of a group of ", size_,
                        " ranks: ", ncclGetErrorString(status),
                        "; run with NCCL_DEBUG=WARN to see the cause, and check whether another rank has ended"}));
    throw error(reason_);
  }

  ncclComm_t comm_ = nullptr; // null: not connected, or aborted
  int rank_, size_;
  double deadline_;
  std::int64_t calls_ = 0;
  bool failed_ = false;
  bool is_disconnected_ = false; // `disconnect` has returned true
  std::string reason_;           // why the group failed; empty: it has not failed
};

} // namespace constrain
