#pragma once

#include "fiber.hpp"
#include "random.hpp"
#include "symbols.hpp"
#include "types.hpp"
#include "violation.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace on_host {

/// What a block runs: the kernel on its arguments, and what was finished before it (for ThreadSanitizer).
struct block_work {
  std::function<void()> const& kernel;
  kernel_symbols const& symbols;
  std::size_t dynamic_shared; // bytes
  void const* const* after;   // clocks that its threads know
  std::size_t clocks;         // how many
  void const* clock;          // that is told what its threads did
};

/// Runs a block's threads as fibers: each to the next __syncthreads(), in an order that is drawn anew every time, so
/// that a kernel that lacks a barrier is likely to give wrong numbers. Under ThreadSanitizer __syncthreads() alone
/// orders the threads of a block, and nothing orders the blocks of a launch.
class block {
public:
  static block& current() {
    static block b;
    return b;
  }

  void run(dim3 shape, block_work const& work) {
    work_ = &work;
    auto const threads = static_cast<std::size_t>(shape.x) * shape.y * shape.z;
    auto& team = teams_[next_team_++ % teams];
    while (team.size() < threads) team.push_back(std::make_unique<fiber>(&block::thread));
    barriers_ = std::make_unique<std::int64_t[]>(2);
    forget_shared_memory();
    std::vector<std::size_t> order(threads);
    for (std::size_t i = 0; i < threads; ++i) order[i] = i;
    for (;;) {
      shuffle(order);
      std::size_t finished = 0;
      for (auto i : order) {
        place(shape, i);
        team[i]->resume();
        finished += team[i]->finished ? 1 : 0;
      }
      ++round_;
      if (finished == threads) break;
      if (finished != 0)
        violated("__syncthreads",
                 text(finished, " of ", threads, " threads of a block of ", work.symbols.name,
                      " have ended instead of reaching it"),
                 "all threads of a block must reach the same barrier");
    }
    work_ = nullptr;
  }

  void barrier() {
    auto const self = threadIdx;
    auto* const me = fiber::running;
    // In turn, so that a slow thread does not learn what the quick ones did behind this barrier.
    auto const* const clock = &barriers_[round_ % 2];
    release(clock);
    me->pause();
    place(self);
    acquire(clock);
  }

  /// Whether a kernel runs, and then the block's dynamic shared memory, and whether an object lies in shared memory.
  bool runs() const { return work_ != nullptr; }
  void* dynamic_shared() { return dynamic_.get(); }
  template <class T> bool in_shared_memory(T const& object) const {
    auto const* const at = reinterpret_cast<char const*>(&object);
    auto const holds = [&](void const* begin, std::size_t bytes) {
      auto const* const from = static_cast<char const*>(begin);
      return at >= from && at + sizeof(T) <= from + bytes;
    };
    for (auto const& v : work_->symbols.shared)
      if (holds(v.address, v.bytes)) return true;
    return holds(dynamic_.get(), work_->dynamic_shared);
  }

private:
  static constexpr std::size_t teams = with_tsan ? 4 : 1; // a thread knows what its fiber did in an earlier block

  // For ThreadSanitizer a fiber knows what happened before it was made, so they are made before the program's work.
  block() {
    for (auto& team : teams_)
      while (with_tsan && team.size() < 256) team.push_back(std::make_unique<fiber>(&block::thread));
  }

  /// Shared memory begins as NaN: nothing is left from the block before.
  void forget_shared_memory() {
    for (auto const& v : work_->symbols.shared) {
      begins_anew(v.address, v.bytes);
      std::memset(v.address, 0xFF, v.bytes);
    }
    dynamic_.reset(work_->dynamic_shared == 0 ? nullptr : new (std::align_val_t{1024}) char[work_->dynamic_shared]);
    if (dynamic_ != nullptr) std::memset(dynamic_.get(), 0xFF, work_->dynamic_shared);
  }
  ON_HOST_UNSEEN static void place(dim3 const& self) { threadIdx = self; }
  static void place(dim3 const& shape, std::size_t i) {
    auto const n = static_cast<unsigned>(i);
    threadIdx = dim3(n % shape.x, n / shape.x % shape.y, n / (shape.x * shape.y));
  }
  ON_HOST_UNSEEN static void thread() {
    auto const& work = *current().work_;
    for (std::size_t i = 0; i < work.clocks; ++i) acquire(work.after[i]);
    work.kernel();
    release(work.clock);
  }

  struct free_aligned {
    void operator()(char* memory) const { ::operator delete[](memory, std::align_val_t{1024}); }
  };

  block_work const* work_ = nullptr;
  std::vector<std::unique_ptr<fiber>> teams_[teams];
  std::unique_ptr<std::int64_t[]> barriers_; // the clocks of the last two
  std::size_t round_ = 0, next_team_ = 0;
  std::unique_ptr<char[], free_aligned> dynamic_;
};

/// In a kernel: its dynamic shared memory, which CUDA's `extern __shared__` names.
inline void* dynamic_shared_memory() { return block::current().dynamic_shared(); }

} // namespace on_host

inline void __syncthreads() { on_host::block::current().barrier(); }
