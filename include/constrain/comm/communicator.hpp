#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The processes that train together. All of them make the same calls in the same order. Sums are not its business:
/// whoever adds receives the parts and adds them in the order of the ranks, so that the result is the same everywhere.
class communicator {
public:
  communicator() = default;
  communicator(communicator const&) = delete;
  communicator& operator=(communicator const&) = delete;
  virtual ~communicator() = default;

  /// This process's number, from 0, and how many processes there are.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Rank r's shard goes to [offsets[r], offsets[r] + lengths[r]) bytes of `all`, on every rank; mine is there already.
  virtual void all_gather(std::byte* all, std::int64_t const* offsets, std::int64_t const* lengths) = 0;
  /// Sends [send_offsets[r], + send_lengths[r]) bytes of `send` to each rank r; what r sends arrives at r * length of
  /// `receive`, `length` bytes or less.
  virtual void all_to_all(std::byte const* send, std::int64_t const* send_offsets, std::int64_t const* send_lengths,
                          std::byte* receive, std::int64_t length) = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
  /// Groups of `ranks` neighbours: 0 .. ranks - 1, ranks .. 2 ranks - 1, ... The size must be a multiple of it.
  virtual std::unique_ptr<communicator> groups_of(int ranks) = 0;

  /// Ends all processes at once, this one with `status`.
  [[noreturn]] virtual void abort(int status) = 0;
  /// Whether all ranks of the run come here within a few seconds. After false they can do nothing together any more.
  virtual bool all_come() = 0;
  /// What the library does now, a literal: said where the others do not come.
  virtual void entered(char const*) {}

  static constexpr int maximum_size = 1024;
};

/// One process alone.
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
  std::unique_ptr<communicator> groups_of(int) override { return std::make_unique<self>(); }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }
  bool all_come() override { return true; }
};

} // namespace constrain
