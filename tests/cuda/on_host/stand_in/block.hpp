#pragma once

#include "fiber.hpp"
#include "meeting.hpp"
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

/// The work of a block: the kernel with its arguments, and the work that finished before it (for ThreadSanitizer).
struct block_work {
  std::function<void()> const& kernel;
  kernel_symbols const& symbols;
  std::size_t dynamic_shared; // bytes
  void const* const* after;   // clocks that its threads know
  std::size_t clocks;         // how many
  void const* clock;          // that is told what its threads did
};

/// Runs a block's threads as fibers: each to the next __syncthreads(), in an order that is drawn anew every time, so
/// that a kernel that lacks a barrier is likely to give wrong numbers. Under ThreadSanitizer, only __syncthreads()
/// orders the threads of a block, and nothing orders the blocks of a launch.
class block {
public:
  ON_HOST_UNSEEN static block& current() {
    static block b;
    return b;
  }

  void run(dim3 shape, block_work const& work) {
    work_ = &work;
    auto const threads = static_cast<std::size_t>(shape.x) * shape.y * shape.z;
    auto& team = teams_[next_team_++ % teams];
    while (team.size() < threads) team.push_back(std::make_unique<fiber>(&block::thread));
    threads_ = threads;
    ++number_;
    if (with_tsan || barrier_ == nullptr) barrier_ = std::make_unique<meeting>(); // its clocks know nothing
    else *barrier_ = {};
    waits_.assign(threads, {});
    forget_shared_memory();
    if (when_started != nullptr) when_started(work.symbols, dynamic_.get(), work.dynamic_shared);
    auto& order = order_; // of the threads that have not ended
    order.resize(threads);
    for (std::size_t i = 0; i < threads; ++i) order[i] = i;
    for (bool first = true; !order.empty(); first = false) {
      shuffle(order);
      bool some_ran = false;
      for (auto& i : order) {
        if (!waits_[i].over()) continue;
        waits_[i] = {};
        index_ = i;
        if (first) place(shape, i); // later, a thread finds its place itself (`meet`)
        team[i]->resume();
        if (team[i]->finished) i = ended;
        some_ran = true;
      }
      std::erase(order, ended);
      if (!some_ran) nobody_runs(order);
    }
    work_ = nullptr;
    if (when_ended != nullptr) when_ended(work.symbols);
  }
  /// If not null, called before the first thread of each block runs, with its dynamic shared memory, and after the
  /// last.
  static inline void (*when_started)(kernel_symbols const& kernel, void const* shared, std::size_t bytes) = nullptr;
  static inline void (*when_ended)(kernel_symbols const& kernel) = nullptr;

  void barrier() { meet(*barrier_, threads_, true); }
  /// Whether `x` is true in any thread of the block, all of which must come.
  bool any(bool x) {
    if (x) vote(true);
    barrier();
    bool const some = voted();
    barrier();
    vote(false);
    barrier();
    return some;
  }
  /// Waits until `threads` threads of the block have come. `orders`: what they did before is then seen by all.
  ON_HOST_UNSEEN void meet(meeting& m, std::size_t threads, bool orders) {
    auto const self = threadIdx;
    auto* const me = fiber::running;
    auto const* const clock = clock_of(m);
    if (orders) release(clock);
    arrive(m, threads);
    me->pause();
    threadIdx = self;
    if (orders) acquire(clock);
  }
  /// How many blocks have run, with this one, and the number of threads of this one.
  ON_HOST_UNSEEN std::uint64_t number() const { return number_; }
  ON_HOST_UNSEEN std::size_t threads() const { return threads_; }

  /// Whether a kernel is running; its block's dynamic shared memory.
  bool runs() const { return work_ != nullptr; }
  void* dynamic_shared() { return dynamic_.get(); }

private:
  static constexpr std::size_t ended = static_cast<std::size_t>(-1); // a thread's index, then
  static constexpr std::size_t teams = with_tsan ? 4 : 1; // a thread knows what its fiber did in an earlier block

  // For ThreadSanitizer a fiber knows what happened before it was made, so they are made before the program's work.
  block() {
    for (auto& team : teams_)
      while (with_tsan && team.size() < 256) team.push_back(std::make_unique<fiber>(&block::thread));
  }

  ON_HOST_UNSEEN void vote(bool x) { vote_ = x; }
  ON_HOST_UNSEEN bool voted() const { return vote_; }
  ON_HOST_UNSEEN static void const* clock_of(meeting const& m) { return &m.clocks[m.times % 2]; }
  ON_HOST_UNSEEN void arrive(meeting& m, std::size_t threads) {
    auto& mine = *(waits_.data() + index_);
    mine.at = &m;
    mine.times = m.times;
    if (++m.arrived == threads) m.arrived = 0, ++m.times;
  }
  [[noreturn]] void nobody_runs(std::vector<std::size_t> const& left) const {
    auto const ended_threads = threads_ - left.size();
    std::size_t at_barrier = 0;
    for (auto i : left) at_barrier += waits_[i].at == barrier_.get() ? 1 : 0;
    if (at_barrier == left.size())
      violated("__syncthreads",
               text(ended_threads, " of ", threads_, " threads of a block of ", work_->symbols.name,
                    " have ended instead of reaching it"),
               "all threads of a block must reach the same barrier");
    violated("__shfl_sync",
             text(left.size() - at_barrier, " of ", threads_, " threads of a block of ", work_->symbols.name,
                  " wait for lanes that do not come"),
             "all lanes of the mask must reach the same call");
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
  std::vector<std::size_t> order_;
  std::unique_ptr<meeting> barrier_;
  std::vector<waiting> waits_; // by thread
  std::size_t threads_ = 0;    // of the block
  std::size_t index_ = 0;      // of the thread that runs
  std::size_t next_team_ = 0;
  std::uint64_t number_ = 0;
  bool vote_ = false; // of `any`
  std::unique_ptr<char[], free_aligned> dynamic_;
};

/// In a kernel: its dynamic shared memory, which CUDA's `extern __shared__` names.
inline void* dynamic_shared_memory() { return block::current().dynamic_shared(); }

} // namespace on_host

inline void __syncthreads() { on_host::block::current().barrier(); }
inline int __syncthreads_or(int x) { return on_host::block::current().any(x != 0) ? 1 : 0; }
