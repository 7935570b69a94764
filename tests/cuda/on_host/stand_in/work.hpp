#pragma once

#include "block.hpp"
#include "memory.hpp"

#include <sched.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace on_host {

/// A unit of work in stream order: a kernel, or a copy, a GEMM or an event, which are kernels of one thread.
struct work {
  std::function<void()> body; // of one CUDA thread; empty: nothing but an order
  dim3 grid, threads;
  std::size_t dynamic_shared = 0; // bytes
  void const* kernel = nullptr;   // null: not a kernel of the program
  bool is_gemm = false;
  // Of work that waits for other processes, instead of `body`: begins it, and returns what asks whether it is done.
  std::function<std::function<bool()>()> begin_exchange;
  std::function<bool()> exchange;
  std::vector<std::shared_ptr<work>> after; // what must be finished before
  std::vector<std::shared_ptr<work>> then;  // what waits for it
  int unfinished = 0;                       // of `after`
  bool done = false;
  std::int64_t begin = 0, end = 0; // for ThreadSanitizer: their addresses are the clocks of its start and its end
};
using work_ptr = std::shared_ptr<work>;

/// Nothing runs: contracts are checked, and device memory is only address space. For sizes that no host has memory for.
inline bool dry = false;

inline std::map<void const*, std::int64_t> launches; // of every kernel, by its address
inline std::int64_t gemms = 0;                       // calls to cublasLtMatmul
inline std::int64_t allocations = 0;

/// Launches and GEMMs so far.
inline std::int64_t all_launches() {
  auto all = gemms;
  for (auto const& kernel : launches) all += kernel.second;
  return all;
}

template <class... parameters> void const* address(void (*kernel)(parameters...)) {
  return reinterpret_cast<void const*>(kernel);
}

/// The device: it runs work when the host waits for some of it, in an order drawn from all that CUDA allows. Everything
/// that the host does in between happens before the device begins, as on a slow device.
class device_queue {
public:
  /// Takes work, behind `w->after`.
  static void add(work_ptr const& w) {
    release(&w->begin);
    for (auto const& before : w->after) {
      if (before->done) continue;
      before->then.push_back(w);
      ++w->unfinished;
    }
    if (dry) w->done = true;
    else if (w->unfinished == 0) ready().push_back(w);
  }
  /// Runs until `target` is done, and more or not.
  static void finish(work_ptr const& target) {
    if (target == nullptr) return;
    if (!target->done) {
      std::set<work const*> needed;
      bool const no_more = ready().size() > 1 && draw(2) == 0;
      if (no_more) collect(*target, needed);
      device_memory::opened const access;
      while (!target->done) run(no_more ? draw_from(needed) : draw(ready().size()));
    }
    acquire(&target->end);
  }
  /// Like `finish`, but returns when all that is left waits for other processes.
  static void try_to_finish(work_ptr const& target) {
    if (target == nullptr) return;
    {
      device_memory::opened const access;
      for (std::size_t in_vain = 0; !target->done && in_vain < 4 * ready().size();)
        in_vain = run(draw(ready().size())) == nullptr ? in_vain + 1 : 0;
    }
    if (target->done) acquire(&target->end);
  }
  static void finish_all() {
    std::vector<work_ptr> ran;
    if (ready().empty()) return;
    device_memory::opened const access;
    while (!ready().empty())
      if (auto const w = run(draw(ready().size()))) ran.push_back(w);
    for (auto const& w : ran) acquire(&w->end);
  }

private:
  static std::vector<work_ptr>& ready() {
    static auto* const all = new std::vector<work_ptr>; // work that nobody waits for is left when the program ends
    return *all;
  }
  static void collect(work const& w, std::set<work const*>& needed) {
    if (w.done || !needed.insert(&w).second) return;
    for (auto const& before : w.after) collect(*before, needed);
  }
  static std::size_t draw_from(std::set<work const*> const& needed) {
    std::vector<std::size_t> choice;
    for (std::size_t i = 0; i < ready().size(); ++i)
      if (needed.count(ready()[i].get()) != 0) choice.push_back(i);
    return choice[draw(choice.size())];
  }
  /// Runs work; null if it still waits for other processes.
  static work_ptr run(std::size_t choice) {
    auto const w = ready()[choice];
    if (w->begin_exchange) {
      if (!w->exchange) w->exchange = w->begin_exchange();
      if (!w->exchange()) return ::sched_yield(), nullptr;
    }
    ready().erase(ready().begin() + static_cast<std::ptrdiff_t>(choice));
    if (!w->begin_exchange) run_blocks(*w);
    w->done = true;
    for (auto const& next : w->then)
      if (--next->unfinished == 0) ready().push_back(next);
    w->then.clear();
    w->after.clear();
    w->body = nullptr;
    w->begin_exchange = nullptr;
    w->exchange = nullptr;
    return w;
  }
  static void run_blocks(work const& w) {
    static kernel_symbols const none;
    static std::function<void()> const nothing = [] {};
    std::vector<void const*> clocks{&w.begin};
    for (auto const& before : w.after) clocks.push_back(&before->end);
    block_work const job{w.body ? w.body : nothing,
                         w.kernel == nullptr ? none : program_symbols::of(w.kernel),
                         w.dynamic_shared,
                         clocks.data(),
                         clocks.size(),
                         &w.end};
    gridDim = w.grid;
    blockDim = w.threads;
    std::vector<dim3> blocks;
    for (unsigned z = 0; z < w.grid.z; ++z)
      for (unsigned y = 0; y < w.grid.y; ++y)
        for (unsigned x = 0; x < w.grid.x; ++x) blocks.emplace_back(x, y, z);
    shuffle(blocks);
    for (auto const& index : blocks) {
      blockIdx = index;
      block::current().run(w.threads, job);
    }
  }
};

} // namespace on_host
