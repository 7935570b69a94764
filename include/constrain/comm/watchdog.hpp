#pragma once

#include "constrain/base/variant.hpp"

#include <atomic>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A thread that ends this process with an error once the process has waited for other processes longer than a
/// deadline. The thread makes no MPI calls: an MPI call may never return if another process has ended or is stopped.
/// Time during which this process itself is stopped counts as half a second at most.
class watchdog {
public:
  /// The process's only instance; never destroyed, because the thread may run until the process ends.
  static watchdog& instance();

  /// A wait for other processes, from the construction to the destruction of this object.
  class wait {
  public:
    /// `what`: the wait's name in the error, a string literal. `deadline`: seconds until the watchdog ends the process;
    /// a nested wait restarts the time, and its deadline then also applies to the outer wait.
    wait(char const* what, double deadline);
    wait(wait const&) = delete;
    wait& operator=(wait const&) = delete;
    ~wait() { instance().what_.store(before_, std::memory_order_release); }

  private:
    char const* before_;
  };

  /// Starts the thread unless it is already running. If no thread can be created, waits have no deadline.
  void start();
  /// Lets the thread end, within a quarter of a second. A run of a single process needs no watchdog.
  void stop() { running_ = false; }

  /// Sets this process's rank, for the error.
  void rank(int r) { rank_ = r; }
  /// Sets the name of the current library call, a string literal, for the error.
  void call(char const* name) { call_.store(name, std::memory_order_relaxed); }

private:
  watchdog() = default;

  /// Seconds on the monotonic clock.
  static double now();

  /// The thread's function: times each wait and ends the process after the deadline. Returns after `stop`.
  void watch();

  /// Prints that the wait `what` has lasted `waited` seconds, and ends the process with status 1.
  [[noreturn, gnu::cold]] void end(char const* what, double waited) const;

  std::atomic<char const*> what_{nullptr}; // name of the current wait; null: not waiting
  std::atomic<char const*> call_{"the start"};
  std::atomic<std::uint64_t> waits_{0}; // number of waits so far, to distinguish consecutive waits
  std::atomic<double> deadline_{1800};
  std::atomic<int> rank_{0};
  std::atomic<bool> running_{false};
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/comm/watchdog.ipp"
#endif
