#pragma once

#include "constrain/base/variant.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A thread that ends this process when it has waited for other processes longer than a deadline. It calls nothing of
/// MPI, whose calls may never return when a peer is gone or stopped. Time in which this process itself was stopped does
/// not count.
class watchdog {
public:
  /// One for the process; it is never destroyed, because its thread runs until the process ends.
  static watchdog& instance() {
    static auto* const only = new watchdog;
    return *only;
  }

  /// While it lives, this process waits for the others: `what` names the wait and is a literal.
  class wait {
  public:
    wait(char const* what, double deadline) : before_(instance().what_.load(std::memory_order_relaxed)) {
      auto& w = instance();
      w.deadline_.store(deadline, std::memory_order_relaxed);
      w.waits_.store(w.waits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      w.what_.store(what, std::memory_order_release);
    }
    wait(wait const&) = delete;
    wait& operator=(wait const&) = delete;
    ~wait() { instance().what_.store(before_, std::memory_order_release); }

  private:
    char const* before_;
  };

  /// Starts the thread, once.
  void start() {
    if (running_.exchange(true)) return;
    // Signals are for the threads that train.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread;
    auto const run = [](void* self) -> void* { return static_cast<watchdog*>(self)->watch(), nullptr; };
    if (::pthread_create(&thread, nullptr, run, this) == 0) ::pthread_detach(thread);
    else running_ = false;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  /// For a process that turned out to be alone.
  void stop() { running_ = false; }

  void rank(int r) { rank_ = r; }
  /// What of the library is being called: a literal, for the sentence.
  void call(char const* name) { call_.store(name, std::memory_order_relaxed); }

private:
  watchdog() = default;

  static double now() {
    std::timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  void watch() {
    double waited = 0, last = now();
    std::uint64_t which = 0;
    while (running_) {
      double const deadline = deadline_.load(std::memory_order_relaxed);
      double const tick = std::clamp(deadline / 20, 0.005, 0.25);
      std::timespec const pause{0, static_cast<long>(tick * 1e9)};
      ::nanosleep(&pause, nullptr);
      // A stop of this process makes one tick long: it counts as two at most.
      double const time = now(), passed = std::min(time - last, 2 * tick);
      last = time;
      auto const* const what = what_.load(std::memory_order_acquire);
      auto const current = waits_.load(std::memory_order_relaxed);
      waited = what != nullptr && current == which ? waited + passed : 0;
      which = current;
      if (what != nullptr && waited >= deadline) end(what, waited);
    }
  }

  [[noreturn, gnu::noinline, gnu::cold]] void end(char const* what, double waited) const {
    char line[512];
    int const length = std::snprintf(
        line, sizeof line,
        "rank %d has waited %.3g s for the other ranks (%s: %s) and ends: one of them has ended, is stopped or makes "
        "other calls; see what they said last, or give the run a longer .deadline\n",
        rank_.load(), waited, call_.load(std::memory_order_relaxed), what);
    auto const size = static_cast<std::size_t>(std::min<int>(length, sizeof line - 1));
    [[maybe_unused]] auto const written = ::write(2, line, size);
    ::_exit(1); // no handlers: they would wait for the others again
  }

  std::atomic<char const*> what_{nullptr}; // null: this process does not wait
  std::atomic<char const*> call_{"the start"};
  std::atomic<std::uint64_t> waits_{0}; // tells two waits apart
  std::atomic<double> deadline_{1800};
  std::atomic<int> rank_{0};
  std::atomic<bool> running_{false};
};

} // namespace constrain
