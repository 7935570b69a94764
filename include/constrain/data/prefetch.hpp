#pragma once

#include "constrain/base/variant.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <pthread.h>
#include <signal.h>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Double buffering: a worker thread calls `make(item&)` to fill one of two items while the other item is in use.
/// `make` gets an item with older content and must overwrite it. Only one thread may call `next`. The destructor waits
/// for a call of `make` that is in progress. If `make` throws, `next` rethrows the exception, and so does every later
/// call. If no thread can be created, `next` itself calls `make`.
template <class item, class maker> class prefetch {
public:
  /// Starts the worker thread, which makes the first item. `empty`: the initial value of both items.
  [[gnu::noinline, gnu::cold]] prefetch(item const& empty, maker make) : items_{empty, empty}, make_(std::move(make)) {
    start();
  }
  prefetch(prefetch const&) = delete;
  [[gnu::noinline, gnu::cold]] ~prefetch() {
    if (!has_worker_) return;
    set_stage(stage::stop);
    ::pthread_join(worker_, nullptr);
  }

  /// Waits for the next item and returns a reference to it, which is valid until the next call.
  item const& next() {
    if (!has_worker_) {
      if (!failure_) try_to_make();
      if (failure_) std::rethrow_exception(failure_);
      return items_[making_];
    }
    stage_.wait(stage::to_be_made, std::memory_order_acquire);
    if (failure_) std::rethrow_exception(failure_);
    making_ = 1 - making_;
    set_stage(stage::to_be_made);
    return items_[1 - making_];
  }

private:
  /// The stage of the item that the worker makes, or `stop`: the worker must return.
  enum class stage : std::int32_t { to_be_made, ready, stop };

  item items_[2];
  int making_ = 0; ///< Index of the item being made or ready. A worker makes it while the other item is in use.
  maker make_;
  std::exception_ptr failure_{};
  std::atomic<stage> stage_{stage::to_be_made};
  // pthread instead of std::thread: including <thread> costs compile time in every program.
  pthread_t worker_{};
  bool has_worker_ = false; ///< Whether the worker thread exists.

  /// Makes the item `making_`; stores an exception in `failure_`.
  void try_to_make() {
    try {
      make_(items_[making_]);
    } catch (...) { failure_ = std::current_exception(); }
  }

  /// Sets the stage and wakes the other thread.
  void set_stage(stage next) {
    stage_.store(next, std::memory_order_release);
    stage_.notify_one();
  }

  /// Starts the worker thread; sets `has_worker_`.
  [[gnu::cold]] void start() {
    // The worker blocks all signals: the training thread must receive them, so that they interrupt its system calls.
    sigset_t all_signals, old_mask;
    ::sigfillset(&all_signals);
    ::pthread_sigmask(SIG_BLOCK, &all_signals, &old_mask);
    auto const run = [](void* self) -> void* { return static_cast<prefetch*>(self)->work(), nullptr; };
    has_worker_ =
        ::pthread_create(&worker_, nullptr, run, this) == 0; // fails at the system's limit on threads or memory
    ::pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
  }

  /// The worker thread: makes items until the stage is `stop`.
  [[gnu::cold]] void work() {
    for (;;) {
      if (stage_.load(std::memory_order_acquire) == stage::stop) return;
      try_to_make();
      auto expected = stage::to_be_made;
      if (!stage_.compare_exchange_strong(expected, stage::ready, std::memory_order_acq_rel)) return;
      stage_.notify_one();
      stage_.wait(stage::ready, std::memory_order_acquire);
    }
  }
};

} // namespace constrain::data
