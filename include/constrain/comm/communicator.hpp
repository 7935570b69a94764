#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A group of processes that train together. Each process has a rank. `rank_on_node`, `all_gather`, `all_to_all`,
/// `barrier`, `groups_of` and `strided_groups` are collective: all ranks must call them in the same order. They throw
/// `error` if the communication reports a failure (by MPI's default, a failure aborts the job instead). This class has
/// no all-reduce: on the CPU, the op `all_reduce` uses `all_to_all` and `all_gather`, and adds the terms in rank order,
/// so that the sums are bit-identical on all ranks and in all runs.
class communicator {
public:
  communicator() = default;
  communicator(communicator const&) = delete;
  communicator& operator=(communicator const&) = delete;
  virtual ~communicator() = default;

  /// This process's rank, from 0 to `size()` - 1.
  virtual int rank() const = 0;
  /// The number of ranks.
  virtual int size() const = 0;
  /// This rank's index among the ranks on the same node (machine). By default, all ranks are on one node. Collective.
  virtual int rank_on_node() { return rank(); }

  /// All-gather: rank r's shard arrives at bytes [offsets[r], offsets[r] + lengths[r]) of `buffer` on every rank. This
  /// rank's shard must be at its offset in `buffer` before the call. `offsets` and `lengths` have `size()` elements and
  /// must be equal on all ranks.
  virtual void all_gather(std::byte* buffer, std::int64_t const* offsets, std::int64_t const* lengths) = 0;
  /// All-to-all: sends bytes [send_offsets[r], send_offsets[r] + send_lengths[r]) of `send` to rank r. Data from rank r
  /// arrives at byte r * length of `receive`, which has `size()` * length bytes. `send_offsets` and `send_lengths` have
  /// `size()` elements. Both arrays and `length` must be equal on all ranks: every rank sends `send_lengths[q]` bytes,
  /// at most `length`, to rank q.
  virtual void all_to_all(std::byte const* send, std::int64_t const* send_offsets, std::int64_t const* send_lengths,
                          std::byte* receive, std::int64_t length) = 0;
  /// Waits until all ranks of this communicator have called `barrier`.
  virtual void barrier() = 0;
  /// Splits the communicator into groups of `ranks` consecutive ranks, which keep their order, and returns this rank's
  /// group. `ranks` must be at least 1 and divide `size()`; this is not checked.
  virtual std::unique_ptr<communicator> groups_of(int ranks) = 0;
  /// Splits the communicator into `stride` groups and returns this rank's group: the ranks that have the same remainder
  /// modulo `stride` as this rank, in the same order. `stride` must be at least 1 and divide `size()`; this is not
  /// checked.
  virtual std::unique_ptr<communicator> strided_groups(int stride) = 0;

  /// Ends the job, that is, all processes that were started together. This process exits with status `status`.
  [[noreturn]] virtual void abort(int status) = 0;
  /// A rank that has failed calls this function. Returns true when every process of the job has called this function or
  /// is exiting, and false if a few seconds pass first. After the function has returned false, collective calls are no
  /// longer possible.
  virtual bool all_failed_or_exited() = 0;
  /// Sets the name of the current library call. The name must be a string literal. The error of a rank that waits too
  /// long for other ranks shows the name. By default, this function does nothing.
  virtual void entered(char const*) {}

  /// The maximum number of ranks of a communicator.
  static constexpr int maximum_size = 1024;
};

/// The communicator of a single process: collective calls do not wait, and only `all_to_all` copies data.
class self final : public communicator {
public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(std::byte*, std::int64_t const*, std::int64_t const*) override {}
  void all_to_all(std::byte const* send, std::int64_t const* offsets, std::int64_t const* lengths, std::byte* receive,
                  std::int64_t) override {
    for (std::int64_t i = 0; i < lengths[0]; ++i) receive[i] = send[offsets[0] + i];
  }
  void barrier() override {}
  std::unique_ptr<communicator> groups_of(int) override { return std::unique_ptr<communicator>(new self); }
  std::unique_ptr<communicator> strided_groups(int) override { return std::unique_ptr<communicator>(new self); }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }
  bool all_failed_or_exited() override { return true; }
};

} // namespace constrain
